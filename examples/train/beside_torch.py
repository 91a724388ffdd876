"""The training of `main.rs` in torch, and the time of a step of both, in turns.

    cargo build --release -p epilogue-train
    python3 examples/train/beside_torch.py target/release/train

Torch's network has the same layers, shapes, batches and optimiser, and what its users would write: `torch.nn`, `backward()`
and `torch.optim.SGD`; with `--compile`, through `torch.compile`, too. Its dropout draws other numbers, so only the times are
comparable. Both use as many threads as they may (`taskset -c 0` for one). The example makes its batches within a step.
"""

import argparse
import re
import statistics
import subprocess
import time

import torch
from torch import nn

from train import CLASSES, DECAY, DROPOUT, EPSILON, FEATURES, HIDDEN, RATE, batch


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.contract = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, FEATURES)
        self.norm, self.classify = nn.LayerNorm(FEATURES, EPSILON), nn.Linear(FEATURES, CLASSES)
        self.activation = nn.Sequential(nn.GELU(), nn.Dropout(DROPOUT))

    def forward(self, x):
        return self.classify(self.norm(self.contract(self.activation(self.expand(x))) + x))


class Torch:
    """A training in torch. Its batches are made beforehand."""

    def __init__(self, steps, compiled):
        self.network = Network()
        self.optimiser = torch.optim.SGD(self.network.parameters(), RATE, DECAY)
        self.loss_of = lambda x, labels: nn.functional.cross_entropy(self.network(x), labels)
        if compiled:
            self.loss_of = torch.compile(self.loss_of)
        pairs = (batch(2024, step) for step in range(steps))
        self.batches = [(torch.tensor(x, dtype=torch.float32), torch.tensor(labels)) for x, labels in pairs]

    def milliseconds(self):
        """Of a step. It computes each loss, as the other does."""
        begin = time.perf_counter()
        for x, labels in self.batches:
            self.optimiser.zero_grad()
            loss = self.loss_of(x, labels)
            loss.backward()
            self.optimiser.step()
            self.last = loss.item()
        return (time.perf_counter() - begin) / len(self.batches) * 1e3


def epilogue_milliseconds(program, steps):
    printed = subprocess.run([program, "--steps", str(steps)], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"steps of ([0-9.]+) ms each", printed)[1])


def main():
    parser = argparse.ArgumentParser(description="times a step of the training here and in torch, in turns")
    parser.add_argument("program", help="the example, built with --release")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="torch.compile, too (it needs a C++ compiler)")
    arguments = parser.parse_args()
    contestants = {
        "epilogue": lambda: epilogue_milliseconds(arguments.program, arguments.steps),
        "torch": Torch(arguments.steps, False).milliseconds,
    }
    if arguments.compile:
        contestants["torch.compile"] = Torch(arguments.steps, True).milliseconds
    times = {name: [] for name in contestants}
    for turn in range(arguments.turns + 1):
        for name, run in contestants.items():
            milliseconds = run()
            if turn > 0:  # the first one warms up
                times[name].append(milliseconds)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; medians of {arguments.turns} turns")
    best = min(statistics.median(times[name]) for name in times if name != "epilogue")
    for name, milliseconds in times.items():
        median = statistics.median(milliseconds)
        print(f"{name:13} {median:6.3f} ms a step, epilogue / it: {statistics.median(times['epilogue']) / median:.2f}")
    print(f"epilogue / the best of torch: {statistics.median(times['epilogue']) / best:.2f}")


main()
