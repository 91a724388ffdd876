"""PyTorch on the reductions, normalisations and scans that the program measures; Triton for a linear recurrence."""

import json

import torch
import triton
import triton.language as tl

from common import race


def report(operation, dtype, shape, medians, bytes_moved):
    contenders = [
        {"name": name, "ms": median, "fastest_ms": fastest, "slowest_ms": slowest,
         "tb_per_s": bytes_moved / median * 1e-9}
        for name, (median, fastest, slowest) in medians.items()
    ]
    print(json.dumps({"kind": "speed", "what": "torch", "operation": operation, "dtype": dtype, "shape": shape,
                      "contenders": contenders}), flush=True)


def sets(shape, dtype, count):
    return [{"x": torch.randn(*shape, device="cuda", dtype=dtype)} for _ in range(count)]


@triton.jit
def combine(a, x, b, y):
    return a * b, b * x + y


@triton.jit
def recurrence_kernel(a, b, y, steps, BLOCK: tl.constexpr):
    """One sequence a program, a block of time after the other: y[t] = a[t] * y[t - 1] + b[t]."""
    at = tl.program_id(0).to(tl.int64) * steps
    state = 0.0
    for begin in range(0, steps, BLOCK):
        t = begin + tl.arange(0, BLOCK)
        inside = t < steps
        factor = tl.load(a + at + t, inside, 1.0)
        term = tl.load(b + at + t, inside, 0.0)
        factor, term = tl.associative_scan((factor, term), 0, combine)
        value = factor * state + term
        tl.store(y + at + t, value, inside)
        state = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, value, 0.0))


def recurrence(sequences, steps):
    shape = (sequences, steps)
    tensors = [{"a": torch.rand(*shape, device="cuda"), "b": torch.randn(*shape, device="cuda")} for _ in range(3)]
    y = torch.empty(*shape, device="cuda")

    def run(a, b):
        recurrence_kernel[(sequences,)](a, b, y, steps, BLOCK=2048, num_warps=8)

    report("linear recurrence", "f32", shape, race({"triton associative scan": run}, tensors), 12 * sequences * steps)


def main():
    torch.manual_seed(1)
    compiled = lambda function: torch.compile(function, dynamic=False)
    size = {torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}
    name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
    n = 8192
    for dtype in (torch.float32, torch.float16):
        tensors = sets((n, n), dtype, 3)
        for axis, operation in ((1, "row sums"), (0, "column sums")):
            function = lambda x, axis=axis: torch.sum(x, axis)
            contenders = {"torch": function, "torch.compile": compiled(function)}
            report(operation, name[dtype], (n, n), race(contenders, tensors), size[dtype] * (n * n + n))
    tensors = sets((n, n), torch.bfloat16, 3)
    softmax = lambda x: torch.softmax(x, 1)
    norm = lambda x: torch.nn.functional.layer_norm(x, (n,))
    for operation, function in (("softmax", softmax), ("layer_norm", norm)):
        contenders = {"torch": function, "torch.compile": compiled(function)}
        report(operation, "bf16", (n, n), race(contenders, tensors), 4 * n * n)
    for count in (1 << 24, 1 << 28):
        contenders = {"torch": torch.sum, "torch.compile": compiled(torch.sum)}
        tensors = [{"input": t["x"]} for t in sets((count,), torch.float32, 3)]
        report("sum", "f32", (count,), race({k: (lambda input, f=f: f(input)) for k, f in contenders.items()}, tensors),
               4 * count)
    tensors = sets((1 << 20, 2), torch.float32, 24)
    contenders = {"torch copy": lambda x: x.clone(), "torch": lambda x: torch.cumsum(x, 0)}
    report("cumsum over the first axis", "f32", (1 << 20, 2), race(contenders, tensors), 16 << 20)
    recurrence(4096, 8192)
    recurrence(1, 1 << 24)


main()
