"""Writes vectors of tensor-core products by MMA-Sim (github.com/microsoft/MMA-Sim, commit c785138).

Run with MMA-Sim and PyTorch on the path: python make.py > vectors.txt
"""

import random

import torch
from mmasim.simulator import nv_ptx

WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "e4m3": 8, "e5m2": 8}
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}
TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "f32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
INTEGERS = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32}
FP8 = [f"m16n8k{k}.{d}.{a}.{b}.{d}" for k in (32, 16) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
OTHERS = [
    "m16n8k16.f32.f16.f16.f32",
    "m16n8k16.f16.f16.f16.f16",
    "m16n8k8.f32.f16.f16.f32",
    "m16n8k16.f32.bf16.bf16.f32",
    "m16n8k8.f32.bf16.bf16.f32",
    "m16n8k8.f32.tf32.tf32.f32",
    "m16n8k4.f32.tf32.tf32.f32",
]


def element(chance, name, kind):
    """Bits of a number: any finite ones; of similar size; few large ones among small ones; subnormal or zero."""
    exponent_bits, mantissa_bits = FORMATS[name]
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    mantissa = chance.getrandbits(mantissa_bits)
    # NaN is another test's, except for the kind that has everything.
    largest = top if name == "e4m3" else top - 1
    exponent = {
        0: lambda: chance.randint(0, largest),
        1: lambda: bias + chance.randint(-2, 1),
        2: lambda: largest - 1 if chance.random() < 0.1 else chance.randint(0, bias // 2),
        3: lambda: chance.choice([0, 0, 0, 1, 2]),
    }[kind]()
    if name == "e4m3" and exponent == top and mantissa == 7:
        mantissa = 6
    if kind == 3 and chance.random() < 0.3:
        exponent = mantissa = 0
    return chance.getrandbits(1) << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa


def tensor(values, shape, name):
    bits = torch.tensor(values, dtype=torch.int64).to(INTEGERS[WIDTHS[name]])
    return bits.view(TYPES[name]).reshape(shape)


def hexadecimal(values, name):
    return "".join(f"{value:0{WIDTHS[name] // 4}x}" for value in values)


def main():
    print("# Products of tensor cores by MMA-Sim (github.com/microsoft/MMA-Sim), commit c785138; make.py wrote them.")
    print("# They are confirmed by no hardware here.")
    print("# architecture qualifier: A's rows, B's columns, C's rows, D's rows; bits of each element in hexadecimal.")
    for arch in ("Ada Lovelace", "RTX Blackwell"):
        for qualifier in FP8 + OTHERS:
            chance = random.Random(f"{arch} {qualifier}")
            product = nv_ptx.mma(arch, qualifier)
            _, d, a, b, c = qualifier.split(".")
            m, n, k = product.m, product.n, product.k
            rows = [element(chance, a, i % 4) for i in range(m) for _ in range(k)]
            columns = [element(chance, b, j // 2) for j in range(n) for _ in range(k)]
            sums = [element(chance, c, (i + j) % 4) for i in range(m) for j in range(n)]
            result = product(tensor(rows, (m, k), a), tensor(columns, (n, k), b).T, tensor(sums, (m, n), c))
            result = [int(x) for x in result.contiguous().view(INTEGERS[WIDTHS[d]]).flatten().tolist()]
            print(f"{arch.replace(' ', '')} {qualifier}")
            for values, name in ((rows, a), (columns, b), (sums, c), (result, d)):
                print(hexadecimal(values, name))


main()
