"""Writes small.gguf with pip's `gguf`: metadata of every type, and tensors beside their values as f32.

    python3 -m pip install gguf==0.19.0
    python3 tests/golden/formats/gguf_file.py
"""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value
from gguf import quants

random = np.random.default_rng(54)
writer = gguf.GGUFWriter(Path(__file__).parent / "small.gguf", "llama")
for number, name in enumerate(["UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT32", "FLOAT64"]):
    signed = name.startswith(("I", "F"))
    writer.add_key_value(f"test.{name.lower()}", -(number + 1) if signed else number + 1, Value[name])
writer.add_bool("test.bool", True)
writer.add_string("test.string", "ein Text – mit Strich")
writer.add_array("test.numbers", [3, 1, 4, 1, 5])
writer.add_array("test.words", ["a", "", "ccc"])
writer.add_array("test.truths", [True, False, True])
writer.add_array("test.nested", [[1, 2], [3]])

data = random.normal(0, 1, (2, 256)).astype(np.float32)
for name in ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "MXFP4"]:
    kind = Type[name]
    raw = quants.quantize(data, kind)
    writer.add_tensor(f"{name}.weight", raw, raw_dtype=kind)
    writer.add_tensor(f"{name}.values", quants.dequantize(raw, kind))
for name in ["Q4_K", "Q5_K", "Q6_K"]:
    kind = Type[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    raw = random.integers(0, 256, (2, size), dtype=np.uint8)
    for place in [208] if name == "Q6_K" else [0, 2]:
        raw[:, place : place + 2] = np.array([0.01, 0.02], dtype=np.float16).reshape(2, 1).view(np.uint8)
    writer.add_tensor(f"{name}.weight", raw, raw_dtype=kind)
    writer.add_tensor(f"{name}.values", quants.dequantize(raw, kind))
writer.add_tensor("Q2_K.weight", np.zeros((1, 84), dtype=np.uint8), raw_dtype=Type.Q2_K)
writer.add_tensor("counts", np.arange(24, dtype=np.int32).reshape(2, 3, 4))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
