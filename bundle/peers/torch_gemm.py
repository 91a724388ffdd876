"""PyTorch, eager and compiled, on the epilogues that the program measures.

Usage: torch_gemm.py default|max-autotune-no-cudagraphs NUMBER, that of a shape in common.HEADLINE.
"""

import sys

import torch
from torch.nn.functional import gelu, linear

from common import HEADLINE, race, report, sets

EPILOGUES = {
    "plain": lambda x, w, bias, residual: linear(x, w),
    "bias_gelu": lambda x, w, bias, residual: gelu(linear(x, w, bias)),
    "bias_gelu_residual": lambda x, w, bias, residual: gelu(linear(x, w, bias)) + residual,
}


def main():
    mode, number = sys.argv[1:]
    shape = HEADLINE[int(number)]
    tensors = sets(*shape)
    for name, function in EPILOGUES.items():
        torch.compiler.reset()
        contenders = {
            "torch linear": EPILOGUES["plain"],
            "torch eager": function,
            f"torch.compile {mode}": torch.compile(function, mode=mode, dynamic=False),
        }
        if name == "plain":
            del contenders["torch eager"]
        with torch.no_grad():
            report("torch", shape, name, race(contenders, tensors))


main()
