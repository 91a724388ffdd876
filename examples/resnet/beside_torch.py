"""The network of `main.rs` in torch, and the time of both, in turns.

    cargo build --release -p epilogue-resnet
    python3 examples/resnet/beside_torch.py target/release/resnet

Torch's network is what its users would write and then make fast: channels last, without gradients, batch normalisations
folded into the convolutions; with `--compile`, through `torch.compile`, too. In training its normalisations take the batch's
statistics. Weights are other random numbers, so only the times are comparable. Both use as many threads as they may
(`taskset -c 0` for one).
"""

import argparse
import re
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def convolution(channels, filters, size, stride, folded):
    """A convolution with its batch normalisation."""
    convolution = nn.Conv2d(channels, filters, size, stride, size // 2, bias=False)
    norm = nn.BatchNorm2d(filters)
    return fuse_conv_bn_eval(convolution.eval(), norm.eval()) if folded else nn.Sequential(convolution, norm)


class Block(nn.Module):
    def __init__(self, channels, width, stride, is_first, folded):
        super().__init__()
        self.shortcut = convolution(channels, 4 * width, 1, stride, folded) if is_first else nn.Identity()
        self.body = nn.Sequential(
            convolution(channels, width, 1, 1, folded), nn.ReLU(True),
            convolution(width, width, 3, stride, folded), nn.ReLU(True),
            convolution(width, 4 * width, 1, 1, folded),
        )

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def network(folded):
    layers = [convolution(3, 64, 7, 2, folded), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Block(channels, width, stride, block == 0, folded))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000), nn.Softmax(1)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


class Torch:
    """Both modes of the program."""

    def __init__(self, images, runs, compiled):
        self.runs, self.networks = runs, [network(True).eval(), network(False).train()]
        self.x = torch.rand(images, 3, 224, 224).mul_(2).sub_(1).contiguous(memory_format=torch.channels_last)
        if compiled:
            self.networks = [torch.compile(network) for network in self.networks]

    def milliseconds(self):
        medians = []
        with torch.no_grad():
            for network in self.networks:
                times = []
                for run in range(self.runs + 1):
                    begin = time.perf_counter()
                    network(self.x)
                    if run > 0:  # the first one warms up
                        times.append(time.perf_counter() - begin)
                medians.append(statistics.median(times) * 1e3)
        return medians


def epilogue_milliseconds(program, images, runs):
    command = [program, "--images", str(images), "--runs", str(runs)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(time) for time in re.findall(r"^all +\d+ +[0-9.]+ +([0-9.]+)", printed, re.MULTILINE)]


def main():
    parser = argparse.ArgumentParser(description="times the network here and in torch, in turns")
    parser.add_argument("program", help="the example, built with --release")
    parser.add_argument("--images", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (it needs a C++ compiler)")
    arguments = parser.parse_args()
    contestants = {
        "epilogue": lambda: epilogue_milliseconds(arguments.program, arguments.images, arguments.runs),
        "torch": Torch(arguments.images, arguments.runs, False).milliseconds,
    }
    if arguments.compile:
        contestants["torch.compile"] = Torch(arguments.images, arguments.runs, True).milliseconds
    times = {name: [] for name in contestants}
    for turn in range(arguments.turns + 1):
        for name, run in contestants.items():
            milliseconds = run()
            if turn > 0:  # the first one warms up
                times[name].append(milliseconds)
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} threads, {arguments.images} images; medians of {arguments.turns} turns")
    for mode, what in enumerate(["inference", "forward pass of a training"]):
        medians = {name: statistics.median(of[mode] for of in times[name]) for name in times}
        best = min(median for name, median in medians.items() if name != "epilogue")
        each = ", ".join(f"{name} {median:.1f} ms" for name, median in medians.items())
        print(f"{what}: {each}; epilogue / the best of torch: {medians['epilogue'] / best:.2f}")


main()
