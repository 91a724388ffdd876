"""Runs one library's side of the bench `peers`: reads commands from standard input, writes a line for each.

`prepare WORK…` makes inputs and compiles; the answer is `ready` and three elements of the result, or `no REASON`.
`run N` calls it once, to warm up, and then N times; the answer is the seconds of these together. The works are in
`with_LIBRARY.py`.
"""

import importlib
import os
import sys
import time

from inputs import Refused, image_inputs, matrix, places, values
import numpy as np

LIBRARY = sys.argv[1]
CLASSES = {"numpy": "Numpy", "torch": "Torch", "jax": "Jax", "onnxruntime": "Onnxruntime"}


def prepare(library, words):
    kind, *rest = words
    if kind == "product":
        m, n, k = map(int, rest[:3])
        return library.product(m, n, k, *rest[3:])
    if kind == "convolution":
        images, extent, channels, layer = map(int, rest)
        return library.convolution(images, extent, channels, bool(layer))
    if kind == "minilm":
        return library.minilm(*map(int, rest))
    if kind == "pairs":
        m, n, k = map(int, rest[:3])
        return library.pairs(values(m * k, 0.02).reshape(m, k), values(n * k, 0.01).reshape(n, k), rest[3])
    if kind == "pool":
        *shape, mean = map(int, rest)
        return library.pool(image_inputs(*shape), bool(mean))
    if kind == "group_norm":
        return library.group_norm(image_inputs(*map(int, rest)))
    rows, columns, *axis = map(int, rest)
    if kind == "gather":
        return library.gather(matrix(rows, columns), places(axis[0], rows))
    if kind == "cross_entropy":
        return library.cross_entropy(matrix(rows, columns), places(rows, columns))
    if kind == "recurrence":
        return library.recurrence(np.abs(matrix(rows, columns)) * 0.9, matrix(rows, columns))
    return getattr(library, kind)(matrix(rows, columns), *axis)


def sample(result):
    """The first, middle and last element of what a call gives (of its first tensor)."""
    first = result[0] if isinstance(result, (tuple, list)) else result
    if hasattr(first, "detach"):
        first = first.float().numpy()
    flat = np.asarray(first).astype(np.float32).reshape(-1)
    return [float(flat[i]) for i in (0, len(flat) // 2, len(flat) - 1)]


def main():
    library = getattr(importlib.import_module(f"with_{LIBRARY}"), CLASSES[LIBRARY])()
    # What libraries print themselves must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("hello", library.version, file=answers, flush=True)
    call = None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "prepare":
            try:
                call = prepare(library, words)
                answer = "ready " + " ".join(map(repr, sample(call())))
            except Refused as refused:
                answer = f"no {refused}"
            except Exception as error:
                answer = "no " + str(error).replace("\n", " ")[:200]
        else:
            count = int(words[0])
            call()
            start = time.perf_counter()
            for _ in range(count):
                call()
            answer = repr(time.perf_counter() - start)
        print(answer, file=answers, flush=True)


main()
