"""Products and convolutions by numpy and JAX, which the tests of `te::ops` compare with.

    python3 -m pip install numpy jax
    python3 tests/golden/operations/products.py > tests/golden/operations/products.txt

A line is `operation; options; shapes of operands; shape of the result; its elements`. Element t of operand p is
`(7·t + 3·p) mod 11 − 5`, so every result is an integer that f32 holds, in any order of sums.
"""

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)


def operand(place, shape):
    count = int(np.prod(shape, dtype=np.int64))
    return ((7 * np.arange(count) + 3 * place) % 11 - 5).astype(np.float64).reshape(shape)


def line(operation, options, shapes, result):
    size = lambda shape: "x".join(map(str, shape)) or "scalar"
    elements = " ".join(str(int(x)) for x in np.asarray(result).reshape(-1))
    print("; ".join([operation, options, " ".join(map(size, shapes)), size(np.shape(result)), elements]))


def matmul(*shapes):
    line("matmul", "", shapes, np.matmul(*(operand(p, s) for p, s in enumerate(shapes))))


def linear(*shapes):
    x, weight, *bias = (operand(p, s) for p, s in enumerate(shapes))
    line("linear", "", shapes, x @ weight.T + (bias[0] if bias else 0))


def einsum(equation, *shapes):
    line("einsum", equation, shapes, np.einsum(equation, *(operand(p, s) for p, s in enumerate(shapes))))


def convolution(image, filter, stride, padding, dilation, groups, last):
    axes = len(stride)
    spatial = "DHW"[3 - axes:]
    layouts = ("N" + spatial + "C", "O" + spatial + "I") if last else ("NC" + spatial, "OI" + spatial)
    result = jax.lax.conv_general_dilated(
        operand(0, image), operand(1, filter), stride, padding, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=(*layouts, layouts[0]), precision="highest")
    pairs = ",".join(f"{before}-{after}" for before, after in padding)
    numbers = lambda values: ",".join(map(str, values))
    options = f"{numbers(stride)} {pairs} {numbers(dilation)} {groups} {'last' if last else 'first'}"
    line(f"conv{axes}d", options, (image, filter), result)


matmul((2, 3), (3, 4))
matmul((3,), (3,))
matmul((3,), (3, 2))
matmul((2, 3), (3,))
matmul((2, 2, 3), (3,))
matmul((3,), (2, 3, 2))
matmul((2, 2, 3), (3, 2))
matmul((2, 3), (4, 3, 2))
matmul((2, 1, 2, 3), (3, 3, 2))
matmul((1, 2, 3), (4, 3, 2))
matmul((2, 1, 1, 3), (1, 3, 3, 2))
matmul((2, 0), (0, 3))
matmul((0, 3), (3, 2))
matmul((2, 1), (1, 3))

linear((3,), (2, 3))
linear((4, 3), (2, 3), (2,))
linear((2, 2, 3), (4, 3), (4,))
linear((2, 0), (3, 0), (3,))

for equation, *shapes in [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (4, 2)),
    ("ij->ji", (2, 3)),
    ("ji", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iji->ji", (3, 2, 3)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("ij->", (2, 3)),
    ("ij->i", (2, 3)),
    ("ij->j", (2, 3)),
    ("i,i", (4,), (4,)),
    ("i,i->i", (4,), (4,)),
    ("i,j", (2,), (3,)),
    ("i,j->ji", (2,), (3,)),
    (",", (), ()),
    (",ij", (), (2, 3)),
    ("ij,", (2, 3), ()),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("bhid,bhjd->bhij", (2, 2, 2, 3), (2, 2, 3, 3)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("ij,kj->ki", (2, 3), (4, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,k->i", (2, 3), (4,)),
    ("ij,kl->", (2, 3), (2, 2)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("ij,jj->i", (2, 3), (3, 3)),
    ("abcd,ebd->ac", (2, 3, 2, 2), (3, 3, 2)),
    ("ik,jkl,il->ij", (2, 3), (4, 3, 2), (2, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    ("i,j,k->kij", (2,), (3,), (2,)),
    ("i,i,i->", (3,), (3,), (3,)),
    ("ij,jk,ki->", (2, 3), (3, 2), (2, 2)),
    ("ab,bc,cd,de->ae", (2, 2), (2, 3), (3, 2), (2, 2)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
    ("...i->i...", (2, 2, 3)),
    ("i...->...", (2, 3)),
    ("...,...", (2, 3), (3,)),
    ("...ii->...i", (2, 3, 3)),
    ("...", (2, 3)),
    ("b...i,i->b...", (2, 3, 2, 2), (2,)),
    ("...i,i...->...", (2, 3), (3, 2)),
    ("aB,Bc", (2, 3), (3, 2)),
    (" i j , j k -> i k ", (2, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)),
    ("ij,jk->ik", (1, 3), (3, 1)),
    ("ij->i", (3, 0)),
]:
    einsum(equation, *shapes)

for last in (False, True):
    place = lambda first, channels, spatial: (first, *spatial, channels) if last else (first, channels, *spatial)
    for n, c, f, pixels, taps, stride, padding, dilation, groups in [
        (2, 3, 2, (7,), (3,), (1,), [(0, 0)], (1,), 1),
        (1, 2, 4, (9,), (3,), (2,), [(1, 2)], (2,), 2),
        (1, 3, 3, (6,), (2,), (1,), [(1, 0)], (1,), 3),
        (1, 2, 1, (3,), (3,), (1,), [(3, 3)], (2,), 1),
        (1, 1, 1, (1,), (1,), (5,), [(0, 0)], (7,), 1),
        (2, 2, 3, (6, 5), (3, 2), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
        (1, 2, 2, (6, 7), (3, 3), (2, 1), [(1, 1), (1, 1)], (1, 1), 1),
        (1, 2, 2, (7, 6), (2, 3), (2, 3), [(0, 1), (2, 0)], (3, 1), 1),
        (1, 4, 6, (5, 5), (3, 3), (2, 2), [(1, 1), (1, 1)], (1, 1), 2),
        (1, 3, 3, (5, 4), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 3),
        (1, 2, 4, (5, 4), (2, 2), (1, 2), [(0, 0), (1, 0)], (2, 1), 2),
        (1, 2, 2, (4, 3, 4), (2, 2, 3), (1, 1, 2), [(0, 0), (1, 0), (1, 1)], (1, 1, 1), 1),
        (1, 2, 4, (4, 3, 3), (2, 1, 2), (2, 1, 1), [(1, 1), (0, 0), (0, 1)], (1, 2, 2), 2),
    ]:
        convolution(place(n, c, pixels), place(f, c // groups, taps), stride, padding, dilation, groups, last)
