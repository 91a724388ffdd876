"""Running maxima, minima and sums of exponentials by PyTorch, which the tests of `te::ops` compare with.

    python3 -m pip install torch
    python3 tests/golden/operations/running.py > tests/golden/operations/running.txt

A line is `operation; options; shape; elements; shape of the results; values; indices`. The options are the dimension, or
`all`, then `exclusive` and `reversed`. There are no indices for `log_cumsum_exp`.
"""

import torch

INF, NAN = float("inf"), float("nan")


def text(tensor):
    return " ".join(f"{x:.9g}" for x in tensor.reshape(-1).tolist())


def size(tensor):
    return "x".join(map(str, tensor.shape)) or "scalar"


def run(operation, x, dim, exclusive, reverse):
    """The values, and the indices of what has them."""
    if reverse:
        x = x.flip(dim)
    length = x.shape[dim]
    if operation == "log_cumsum_exp":
        values, indices = torch.logcumsumexp(x.double(), dim), None
    else:
        values, indices = getattr(torch, operation)(x, dim)
    if exclusive:
        first = torch.full_like(values.narrow(dim, 0, min(1, length)), INF if operation == "cummin" else -INF)
        values = torch.cat([first, values.narrow(dim, 0, max(length - 1, 0))], dim)
        if indices is not None:
            none = torch.full_like(indices.narrow(dim, 0, min(1, length)), -1)
            indices = torch.cat([none, indices.narrow(dim, 0, max(length - 1, 0))], dim)
    if reverse:
        values = values.flip(dim)
        indices = None if indices is None else torch.where(indices < 0, -1, length - 1 - indices).flip(dim)
    return values, indices


torch.manual_seed(7)
mixed = torch.randint(-4, 5, (2, 3, 8)).float()
special = torch.tensor([[0.0, -INF, -INF, 2, 2, INF, 1, INF], [NAN, 1, 3, NAN, -INF, 3, 3, 0], [-INF] * 8])
for x, dims in [
    (torch.tensor([1.0, 3, 2, 3, 0, 5, 5]), [0]),
    (torch.tensor([-2.5]), [0]),
    (torch.zeros(0), [0]),
    (torch.zeros(3, 0), [0, 1, -1]),
    (mixed, [0, 1, -1, "all"]),
    (special, [-1, 0, "all"]),
    (torch.randn(3, 40), [-1]),
]:
    for dim in dims:
        for exclusive in [False, True]:
            for reverse in [False, True]:
                for operation in ["cummax", "cummin", "log_cumsum_exp"]:
                    flat = x.reshape(-1) if dim == "all" else x
                    values, indices = run(operation, flat, 0 if dim == "all" else dim, exclusive, reverse)
                    options = str(dim) + " exclusive" * exclusive + " reversed" * reverse
                    fields = [operation, options, size(x), text(x), size(values), text(values)]
                    print("; ".join(fields + ([] if indices is None else [text(indices)])))
