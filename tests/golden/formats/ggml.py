"""Writes ggml.txt: blocks of ggml's formats and their values, by the reference code of pip's `gguf` (0.19.0, with numpy).

    python3 -m pip install gguf==0.19.0
    python3 tests/golden/formats/ggml.py > tests/golden/formats/ggml.txt

A line is `decode FORMAT BLOCK VALUES` or `encode FORMAT VALUES BLOCK`; blocks are bytes and values are f32, in hexadecimal,
little-endian.
"""

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

random = np.random.default_rng(54)


def put(kind, name, first, second):
    print(kind, name, first.tobytes().hex(), second.tobytes().hex())


# The places of f16 scales in a block.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": []}

for name, halves in HALVES.items():
    kind = GGMLQuantizationType[name]
    _, size = GGML_QUANT_SIZES[kind]
    for scale in [1.0, 0.003, -7.25, 6e-8]:
        block = random.integers(0, 256, size, dtype=np.uint8)
        for place in halves:
            half = np.array([scale * random.uniform(0.5, 1)], dtype=np.float16)
            block[place : place + 2] = half.view(np.uint8)
        if name == "MXFP4":
            block[0] = {1.0: 127, 0.003: 110, -7.25: 0, 6e-8: 254}[scale]
        values = quants.dequantize(block.reshape(1, -1), kind).astype(np.float32)
        put("decode", name, block, values)

for name in ["Q4_0", "Q4_1", "Q8_0"]:
    kind = GGMLQuantizationType[name]
    rows = [random.normal(0, scale, 32) for scale in [1.0, 1e-3, 300.0]]
    rows.append(np.zeros(32))
    rows.append(np.full(32, 2.5))
    rows.append(np.arange(32) - 16.0)  # with ties
    rows.append(np.where(np.arange(32) == 7, 1.0, 0.0))
    for row in np.array(rows, dtype=np.float32):
        put("encode", name, row, quants.quantize(row.reshape(1, -1), kind))
