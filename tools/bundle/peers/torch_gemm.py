"""PyTorch, eager and compiled, on the epilogues that the program measures.

Usage: torch_gemm.py default|max-autotune-no-cudagraphs [--compile-only] NUMBER..., those of shapes in common.HEADLINE.
With --compile-only every function runs once, so that Inductor's cache on disk has it, and nothing is timed.
"""

import os
import sys

if "default" in sys.argv:
    # Few and small kernels: processes that compile take longer to start than that.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
from torch.nn.functional import gelu, linear

from common import HEADLINE, race, report, sets

EPILOGUES = {
    "plain": lambda x, w, bias, residual: linear(x, w),
    "bias_gelu": lambda x, w, bias, residual: gelu(linear(x, w, bias)),
    "bias_gelu_residual": lambda x, w, bias, residual: gelu(linear(x, w, bias)) + residual,
}


def compiled(function, mode):
    torch.compiler.reset()
    return torch.compile(function, mode=mode, dynamic=False)


def compile_only(mode, shape):
    tensors = sets(*shape)[0]
    for function in EPILOGUES.values():
        compiled(function, mode)(**tensors)
    torch.cuda.synchronize()


def time_all(mode, shape):
    tensors = sets(*shape)
    for name, function in EPILOGUES.items():
        contenders = {
            "torch linear": EPILOGUES["plain"],
            "torch eager": function,
            f"torch.compile {mode}": compiled(function, mode),
        }
        if name == "plain":
            del contenders["torch eager"]
        report("torch", shape, name, race(contenders, tensors))


def main():
    mode, *numbers = sys.argv[1:]
    work = compile_only if "--compile-only" in numbers else time_all
    with torch.no_grad():
        for number in numbers:
            if number != "--compile-only":
                work(mode, HEADLINE[int(number)])


main()
