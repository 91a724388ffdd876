"""Writes vectors of tensor-core products by MMA-Sim (github.com/microsoft/MMA-Sim, commit c785138).

Run with MMA-Sim and PyTorch on the path: python make.py > vectors.txt
"""

import random

import torch
from mmasim.simulator import nv_ptx

WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "e4m3": 8, "e5m2": 8, "e2m1": 8, "ue8m0": 8, "ue4m3": 8}
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}
TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "f32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e2m1": torch.uint8,
    "ue8m0": torch.float8_e8m0fnu,
    "ue4m3": torch.float8_e4m3fn,
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


SCALED = [f"m16n8k32.block32.f32.{a}.{b}.f32.ue8m0" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")] + [
    "m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0",
    "m16n8k64.block16.f32.e2m1.e2m1.f32.ue8m0",
    "m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3",
]


def scale(chance, name, kind):
    """Bits of a scale: near 1, or of any size that leaves most results finite."""
    if name == "ue4m3":
        return chance.choice([0, 1, 0x7e]) if kind == 3 else chance.randint(0, 0x7e)
    return 127 + (chance.randint(-3, 3) if kind % 2 else chance.randint(-40, 40))


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
    print("# With scales, those of A's rows and of B's columns follow.")
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
    for qualifier in SCALED:
        chance = random.Random(qualifier)
        product = nv_ptx.mma_block_scale("RTX Blackwell", qualifier)
        _, block, d, a, b, c, of_scales = qualifier.split(".")
        m, n, k = product.m, product.n, product.k
        packed, blocks = k // product.packing, k // int(block[-2:])
        operand = (lambda name, kind: chance.getrandbits(8)) if a == "e2m1" else (lambda name, kind: element(chance, name, kind))
        rows = [operand(a, i % 4) for i in range(m) for _ in range(packed)]
        columns = [operand(b, j // 2) for j in range(n) for _ in range(packed)]
        sums = [element(chance, c, 1) for _ in range(m * n)]
        row_scales = [scale(chance, of_scales, i % 4) for i in range(m) for _ in range(blocks)]
        column_scales = [scale(chance, of_scales, j // 2) for j in range(n) for _ in range(blocks)]
        result = product(
            tensor(rows, (m, packed), a),
            tensor(columns, (n, packed), b).T,
            tensor(sums, (m, n), c),
            tensor(row_scales, (m, blocks), of_scales),
            tensor(column_scales, (n, blocks), of_scales).T,
        )
        result = [int(x) for x in result.contiguous().view(torch.uint32).flatten().tolist()]
        print(f"RTXBlackwell {qualifier}")
        for values, name in ((rows, a), (columns, b), (sums, c), (result, d)):
            print(hexadecimal(values, name))
        print(hexadecimal(row_scales, of_scales) + " " + hexadecimal(column_scales, of_scales))


main()
