"""PyTorch, eager and compiled, on the epilogues that the program measures. Usage: torch_gemm.py headline|all"""

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
    everything = sys.argv[1:] == ["all"]
    shapes = HEADLINE if everything else [HEADLINE[0], HEADLINE[1], HEADLINE[4]]
    mode = "max-autotune-no-cudagraphs" if everything else "default"
    for shape in shapes:
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
