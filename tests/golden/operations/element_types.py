"""Operations of numpy's types, which the tests of tensor expressions compare with.

    python3 -m pip install numpy mpmath
    python3 tests/golden/operations/element_types.py > tests/golden/operations/element_types.txt

A line is `type; operation; type of the result; its elements`. The operation `x` gives the first operand, `y` the second,
and `d` divisors. An element is the number of its bits, in hexadecimal digits. Tangents and angles are those of mpmath,
rounded once.
"""

import mpmath
import numpy as np

mpmath.mp.prec = 400
INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
FLOATS = ["f16", "f32", "f64"]
DTYPES = {name: np.dtype({"i": "int", "u": "uint", "f": "float"}[name[0]] + name[1:]) for name in INTEGERS + FLOATS}
DTYPES["bool"] = np.dtype(bool)


def line(dtype, operation, result, values):
    values = np.ascontiguousarray(np.asarray(values).reshape(-1), DTYPES[result])
    bits = values.view(f"uint{8 * values.itemsize}")
    print("; ".join([dtype, operation, result, " ".join(f"{int(x):x}" for x in bits)]))


def wrapped(values, dtype):
    """Integers of any size, wrapped to a type."""
    info = np.iinfo(DTYPES[dtype])
    count = int(info.max) - int(info.min) + 1
    return np.array([(int(x) - int(info.min)) % count + int(info.min) for x in values], DTYPES[dtype])


def held(values, dtype):
    """Numbers cut toward zero, at most the greatest and at least the least of a type; 0 for NaN."""
    info = np.iinfo(DTYPES[dtype])

    def one(x):
        if np.isnan(x):
            return 0
        if np.isinf(x):
            return int(info.max if x > 0 else info.min)
        return min(max(int(x), int(info.min)), int(info.max))

    return np.array([one(x) for x in values], DTYPES[dtype])


def pairs_of(some, dtype):
    """Some numbers, each with several others."""
    x = np.array(some, DTYPES[dtype])
    turns = [0, 1, 4, 9, -2]
    return np.concatenate([x for _ in turns]), np.concatenate([np.roll(x, by) for by in turns])


def integers(dtype):
    info, random = np.iinfo(DTYPES[dtype]), np.random.default_rng(7)
    some = [0, 1, 2, 3, 7, int(info.max), int(info.max) - 1, int(info.max) // 2, int(info.min), int(info.min) + 1]
    some += [-1, -2, -7] if info.min < 0 else [5, 100]
    some += [int(x) for x in random.integers(int(info.min), int(info.max), 7, DTYPES[dtype], endpoint=True)]
    x, y = pairs_of(some, dtype)
    d = np.where(y == 0, np.ones_like(y), y)
    for name, values in [("x", x), ("y", y), ("d", d)]:
        line(dtype, name, dtype, values)
    pairs = list(zip(map(int, x), map(int, d)))
    down = [a // b for a, b in pairs]
    cut = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    for name, values in [
        ("add", x + y),
        ("sub", x - y),
        ("mul", x * y),
        ("and", x & y),
        ("or", x | y),
        ("xor", x ^ y),
        ("not", ~x),
        ("shl", np.left_shift(x, y)),
        ("shr", np.right_shift(x, y)),
        ("floor_div", wrapped(down, dtype)),
        ("floor_mod", wrapped([a - q * b for (a, b), q in zip(pairs, down)], dtype)),
        ("trunc_div", wrapped(cut, dtype)),
        ("trunc_mod", wrapped([a - q * b for (a, b), q in zip(pairs, cut)], dtype)),
        ("min", np.minimum(x, y)),
        ("max", np.maximum(x, y)),
        ("sign", np.sign(x)),
    ]:
        line(dtype, name, dtype, values)
    # numpy's own divisions, where they are defined.
    exact = np.array([not (b == -1 and a == int(info.min)) for a, b in pairs])
    assert np.array_equal((x // d)[exact], wrapped(down, dtype)[exact])
    assert np.array_equal(np.fmod(x, d)[exact], wrapped([a - q * b for (a, b), q in zip(pairs, cut)], dtype)[exact])
    for name, values in [("lt", x < y), ("le", x <= y), ("gt", x > y), ("ge", x >= y), ("eq", x == y), ("ne", x != y)]:
        line(dtype, name, "bool", values)
    for to in INTEGERS:
        line(dtype, "to", to, x.astype(DTYPES[to]))
    for to in FLOATS:
        line(dtype, "to", to, x.astype(DTYPES[to]))
    for to in sorted({dtype, "i64", "u64", "i32"}):
        line(dtype, "sum", to, np.sum(x, dtype=DTYPES[to]))
        line(dtype, "cumsum", to, np.cumsum(x, dtype=DTYPES[to]))
    line(dtype, "least", dtype, np.min(x))
    line(dtype, "greatest", dtype, np.max(x))
    line(dtype, "parity", dtype, np.bitwise_xor.reduce(x))


def floats(dtype):
    info, random = np.finfo(DTYPES[dtype]), np.random.default_rng(7)
    some = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, -7.75, np.inf, -np.inf, np.nan, info.max, -info.max]
    some += [info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 1e4, -3e4, np.pi / 2, -np.pi]
    some += list(random.standard_normal(5) * 100) + [float(2**k) for k in (7, 8, 15)] + [-129.0, -32769.0]
    if dtype != "f16":
        some += [float(2**k) for k in (16, 31, 32, 63, 64)] + [-float(2**31), -float(2**63), 1e30, 22.0, 355.0, 1e22]
    x, y = pairs_of(some, dtype)
    for name, values in [("x", x), ("y", y)]:
        line(dtype, name, dtype, values)
    line(dtype, "trunc", dtype, np.trunc(x))
    line(dtype, "sign", dtype, np.sign(x))
    for name, values in [("is_nan", np.isnan(x)), ("is_infinite", np.isinf(x)), ("is_finite", np.isfinite(x))]:
        line(dtype, name, "bool", values)
    for to in INTEGERS:
        line(dtype, "to", to, held(x, to))

    def tan(x):
        if x == 0 or not np.isfinite(x):
            return np.tan(float(x))
        return float(mpmath.tan(mpmath.mpf(float(x))))

    def atan2(y, x):
        if not np.isfinite(x) or not np.isfinite(y) or x == 0 or y == 0:
            return np.arctan2(float(y), float(x))
        return float(mpmath.atan2(mpmath.mpf(float(y)), mpmath.mpf(float(x))))

    line(dtype, "tan", "f64", [tan(x) for x in x])
    line(dtype, "atan2", "f64", [atan2(y, x) for x, y in zip(x, y)])


with np.errstate(all="ignore"):
    for dtype in INTEGERS:
        integers(dtype)
    for dtype in FLOATS:
        floats(dtype)
