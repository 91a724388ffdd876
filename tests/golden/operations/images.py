"""Pooling and batch normalisation by PyTorch, which the tests of `te::ops` compare with.

    python3 -m pip install torch
    python3 tests/golden/operations/images.py > tests/golden/operations/images.txt

A line is `operation; options; shape; elements; shape of the result; its elements`. The options of pooling are `window,
stride, padding, dilation` along each axis, then `ceil` and `padding_counts`. Averages of dilated windows, which PyTorch lacks,
are those of its maxima's windows, element by element. The options of `batch_norm` are the mean, variance, weight and bias of
each channel; with `batch` for the first two, they are the batch's.
"""

import itertools

import torch
from torch.nn import functional

INF, NAN = float("inf"), float("nan")


def text(tensor):
    return " ".join(f"{x:.9g}" for x in tensor.reshape(-1).tolist())


def size(tensor):
    return "x".join(map(str, tensor.shape))


def line(operation, options, x, result):
    print("; ".join([operation, options, size(x), text(x), size(result), text(result)]))


def dilated_average(x, window, stride, padding, dilation, counts, shape):
    """The mean of each window, for a result of this shape."""
    axes = len(window)
    result = torch.zeros(shape, dtype=torch.float64)
    for place in itertools.product(*map(range, shape)):
        lead, at = place[: len(shape) - axes], place[len(shape) - axes :]
        total, count = 0.0, 0
        for tap in itertools.product(*map(range, window)):
            where = [at[d] * stride[d] + tap[d] * dilation[d] - padding[d] for d in range(axes)]
            extent = x.shape[len(lead) :]
            if all(0 <= where[d] < extent[d] for d in range(axes)):
                total, count = total + x[lead + tuple(where)].item(), count + 1
            elif counts and all(where[d] < extent[d] + padding[d] for d in range(axes)):
                count += 1
        result[place] = total / count if count else NAN
    return result


torch.manual_seed(5)
wide = torch.randint(-5, 6, (2, 3, 9)).float()
image = torch.randint(-5, 6, (2, 2, 6, 7)).float()
solid = torch.randint(-5, 6, (1, 2, 4, 3, 5)).float()
special = torch.tensor([[[0.0, -INF, 1, NAN, 2, INF, -INF, -INF, -INF, 3]]])
for x, window, stride, padding, dilation in [
    (wide, [2], [2], [0], [1]),
    (wide, [3], [2], [1], [1]),
    (wide, [3], [4], [0], [1]),
    (wide, [3], [2], [1], [2]),
    (wide, [1], [1], [0], [1]),
    (special, [3], [2], [1], [1]),
    (special, [2], [3], [0], [2]),
    (image, [2, 2], [2, 2], [0, 0], [1, 1]),
    (image, [3, 3], [2, 2], [1, 1], [1, 1]),
    (image, [3, 2], [3, 2], [1, 0], [1, 2]),
    (image[:0], [2, 2], [1, 1], [0, 0], [1, 1]),
    (solid, [2, 2, 2], [2, 1, 2], [1, 0, 1], [1, 1, 1]),
]:
    axes = len(window)
    for ceil in [False, True]:
        numbers = ", ".join(" ".join(map(str, numbers)) for numbers in [window, stride, padding, dilation])
        options = numbers + ", ceil" * ceil
        largest = getattr(functional, f"max_pool{axes}d")
        made = largest(x, window, stride, padding, dilation, ceil_mode=ceil)
        line("max_pool", options, x, made)
        for counts in [False, True]:
            average = dilated_average(x, window, stride, padding, dilation, counts, made.shape)
            if dilation == [1] * axes and x.numel():
                own = getattr(functional, f"avg_pool{axes}d")
                torch.testing.assert_close(
                    own(x.double(), window, stride, padding, ceil, counts), average, equal_nan=True
                )
            line("average_pool", options + ", padding_counts" * counts, x, average)

for x in [image, wide, torch.randn(4, 3), special, torch.zeros(0, 2, 3)]:
    channels = x.shape[1]
    mean, var = torch.randn(channels), torch.rand(channels) + 0.5
    weight, bias = torch.randn(channels), torch.randn(channels)
    of = lambda *given: ", ".join(text(x) for x in given)
    made = functional.batch_norm(*(t.double() for t in (x, mean, var, weight, bias)), False, 0.1, 1e-5)
    line("batch_norm", of(mean, var, weight, bias), x, made)
    if x.numel():
        made = functional.batch_norm(x.double(), None, None, weight.double(), bias.double(), True, 0.1, 1e-5)
        line("batch_norm", "batch, batch, " + of(weight, bias), x, made)
