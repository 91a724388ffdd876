"""What the Python peers share: shapes, random tensors that rotate past the cache, and interleaved timing by events.

The same method as the program's own timing: the GPU is held while the host queues the runs, contenders take turns, and
the median counts.
"""

import json
import statistics

import torch

HEADLINE = [
    (8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (4096, 4096, 1024),
    (8192, 28672, 8192), (8192, 8192, 28672), (16, 8192, 8192), (64, 28672, 8192), (256, 8192, 8192),
    (1024, 1024, 65536), (4095, 4097, 1000),
]
ROTATED_BYTES = 3 * 60 * 1024 * 1024
ROUNDS = 9
PART_MS = 4.0


def sets(m, n, k, dtype=torch.bfloat16):
    """Tensors of one linear layer with a residual, as many times as it takes to leave the L2."""
    bytes_of_one = 2 * (m * k + n * k + 2 * m * n + n)
    count = max(1, min(64, -(-ROTATED_BYTES // bytes_of_one)))
    normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    return [{"x": normal(m, k), "w": normal(n, k), "bias": normal(n), "residual": normal(m, n)} for _ in range(count)]


def part(run, tensors, first, times):
    """Milliseconds of one of `times` runs in a row."""
    torch.cuda._sleep(int(min(2e7, 2e4 + 6e4 * times)))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for i in range(times):
        run(**tensors[(first + i) % len(tensors)])
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


def race(contenders, tensors):
    """{name: run} -> {name: median, fastest and slowest milliseconds}."""
    times = {}
    for name, run in contenders.items():
        for i in range(3):
            run(**tensors[i % len(tensors)])
        torch.cuda.synchronize()
        times[name] = max(1, min(400, int(PART_MS / max(part(run, tensors, 0, 3), 1e-3))))
    taken = {name: [] for name in contenders}
    for turn in range(ROUNDS):
        for name, run in contenders.items():
            taken[name].append(part(run, tensors, turn * times[name], times[name]))
    return {name: (statistics.median(t), min(t), max(t)) for name, t in taken.items()}


def report(peer, shape, epilogue, medians):
    m, n, k = shape
    contenders = [
        {"name": name, "ms": median, "fastest_ms": fastest, "slowest_ms": slowest, "tflops": 2e-9 * m * n * k / median}
        for name, (median, fastest, slowest) in medians.items()
    ]
    record = {"kind": "speed", "what": peer, "shape": shape, "element": "bf16", "epilogue": epilogue,
              "contenders": contenders}
    print(json.dumps(record), flush=True)
