"""Gathers and padding by numpy, which the tests of `te::ops` compare with.

    python3 -m pip install numpy
    python3 tests/golden/operations/indexing.py > tests/golden/operations/indexing.txt

A line is `operation; options; shape; shape of indices; shape of the result; its elements`. Element t of the tensor is
`(7·t) mod 11 − 5`, and element t of the indices is `(t² + 1) mod n`, with the extent n where they point.
"""

import numpy as np


def size(shape):
    return "x".join(map(str, shape)) or "scalar"


def operand(shape):
    return (7 * np.arange(int(np.prod(shape))) % 11 - 5).reshape(shape)


def indices(shape, extent):
    return ((np.arange(int(np.prod(shape))) ** 2 + 1) % extent).reshape(shape)


def line(operation, options, shape, places, result):
    elements = " ".join(str(int(x)) for x in result.reshape(-1))
    print("; ".join([operation, options, size(shape), size(places), size(result.shape), elements]))


for shape, places, axis in [
    ((5,), (3,), 0),
    ((5,), (9,), 0),
    ((3, 4), (3, 2), 1),
    ((3, 4), (5, 4), 0),
    ((2, 3, 4), (2, 1, 4), 1),
    ((2, 3, 4), (2, 3, 1), 2),
    ((2, 3), (2, 0), 1),
]:
    line("take_along", str(axis), shape, places, np.take_along_axis(operand(shape), indices(places, shape[axis]), axis))

for shape, places, axis in [
    ((5,), (3,), 0),
    ((3, 4), (2,), -1),
    ((3, 4), (2, 3), 0),
    ((2, 3, 4), (5,), 1),
    ((2, 3, 4), (), 1),
    ((2, 3), (0,), 0),
]:
    result = np.take(operand(shape), indices(places, shape[axis]), axis)
    line("gather", str(axis), shape, places, result)

for shape, edges in [
    ((20,), [-5, -1, 0, 3]),
    ((20,), [-2, 5]),
    ((3, 7), [-9, -5, 5, 6, 9]),
    ((2, 3, 4), [0, 0, 1, 1, 5]),
    ((0,), [0, 1, 2]),
    ((), [-5, 0]),
]:
    line("histogram", ",".join(map(str, edges)), shape, (), np.histogram(operand(shape), edges)[0])

for shape, length in [((9,), 4), ((2, 3), 1), ((2, 3, 5), 9), ((0,), 3), ((), 2)]:
    flat = operand(shape).reshape(-1)
    flat = flat[(flat >= 0) & (flat < length)]
    line("bincount", str(length), shape, (), np.bincount(flat, minlength=length))

for places, classes in [((4,), 3), ((2, 3), 5), ((3,), 1), ((), 4)]:
    result = np.eye(classes, dtype=int)[indices(places, classes)]
    line("one_hot", str(classes), (), places, result)

for shape, widths in [
    ((4,), [(2, 3)]),
    ((4,), [(0, 0)]),
    ((4,), [(9, 10)]),
    ((1,), [(2, 1)]),
    ((2, 3), [(1, 0), (0, 2)]),
    ((2, 3), [(3, 1), (4, 5)]),
    ((2, 1, 3), [(0, 1), (2, 0), (1, 1)]),
]:
    text = ",".join(f"{before}-{after}" for before, after in widths)
    for mode in ["constant", "edge", "reflect"]:
        more = {"constant_values": 9} if mode == "constant" else {}
        line(mode, text, shape, (), np.pad(operand(shape), widths, mode=mode, **more))
