"""A persistent Triton matrix product with a fused bias+GELU+residual, on tensor descriptors (TMA), autotuned.

Usage: triton_gemm.py NUMBER, that of a shape in common.HEADLINE.
"""

import sys

import torch
import triton
import triton.language as tl
from torch.nn.functional import linear

from common import HEADLINE, race, report, sets


@triton.jit
def finished(sums, bias, residual, row, column, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """GELU of the sums and the bias, and the residual."""
    columns = column + tl.arange(0, COLUMNS)
    sums += tl.load(bias + columns, columns < n, 0.0)[None, :].to(tl.float32)
    sums = 0.5 * sums * (1.0 + tl.erf(sums * 0.70710678))
    # By pointers: a descriptor's tile in shared memory would take the room of a stage.
    rows = (row + tl.arange(0, ROWS)).to(tl.int64)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    return sums + tl.load(residual + rows[:, None] * n + columns[None, :], inside, 0.0).to(tl.float32)


@triton.autotune(
    [triton.Config({"BM": bm, "BN": bn, "BK": 64, "GROUP": 8}, num_stages=stages, num_warps=8)
     for bm, bn in ((128, 256), (256, 128), (128, 128)) for stages in (2, 3, 4)],
    key=["m", "n", "k", "FUSED"],
)
@triton.jit
def product(x, w, bias, residual, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP: tl.constexpr, FUSED: tl.constexpr):
    xs = tl.make_tensor_descriptor(x, [m, k], [k, 1], [BM, BK])
    ws = tl.make_tensor_descriptor(w, [n, k], [k, 1], [BN, BK])
    ys = tl.make_tensor_descriptor(y, [m, n], [n, 1], [BM, BN // 2])
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        group = tile // (GROUP * tiles_n)
        rows = min(GROUP, tiles_m - group * GROUP)
        row = (group * GROUP + tile % (GROUP * tiles_n) % rows) * BM
        column = (tile % (GROUP * tiles_n) // rows) * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            sums = tl.dot(xs.load([row, at]), ws.load([column, at]).T, sums)
        # In two halves, so that shared memory keeps room for the stages.
        halves = tl.permute(tl.reshape(sums, (BM, 2, BN // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        if FUSED:
            left = finished(left, bias, residual, row, column, m, n, BM, BN // 2)
            right = finished(right, bias, residual, row, column + BN // 2, m, n, BM, BN // 2)
        ys.store([row, column], left.to(tl.bfloat16))
        ys.store([row, column + BN // 2], right.to(tl.bfloat16))


def runner(shape, fused):
    m, n, k = shape
    y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    count = torch.cuda.get_device_properties(0).multi_processor_count

    def run(x, w, bias, residual):
        product[lambda meta: (min(count, triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"])),)](
            x, w, bias, residual, y, m, n, k, FUSED=fused)
        return y

    return run


def main():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    shape = HEADLINE[int(sys.argv[1])]
    tensors = sets(*shape)
    for name, fused in (("plain", False), ("bias_gelu_residual", True)):
        run = runner(shape, fused)
        first = tensors[0]
        expected = linear(first["x"], first["w"]).float()
        if fused:
            expected = torch.nn.functional.gelu(expected + first["bias"].float()) + first["residual"].float()
        error = (run(**first).float() - expected).norm() / expected.norm()
        assert error < 1e-2, f"{shape} {name}: {error}"
        contenders = {"torch linear": lambda x, w, **rest: linear(x, w), "triton persistent": run}
        report("triton", shape, name, race(contenders, tensors))


main()
