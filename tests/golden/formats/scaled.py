"""Writes scaled.txt: MX, NVFP4 and 8-bit values with f32 scales, by torch (2.15.0) and torchao (0.18.0).

    python3 -m pip install torch==2.15.0 torchao==0.18.0
    python3 tests/golden/formats/scaled.py > tests/golden/formats/scaled.txt

`input I VALUES` has 32 values, f32 in hexadecimal, little-endian. What torch makes of them:

    mx ELEMENT MODE I SCALE CODES VALUES           (values of the mode floor only)
    nvfp4 TENSOR-SCALE I SCALES CODES VALUES
    f32 ELEMENT BLOCK I SCALES CODES
    blocked ROWS PER-ROW BYTES        of the scales (7 i + 1) % 251
"""

import struct

import numpy as np
import torch
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.prototype.mx_formats.utils import to_blocked

random = np.random.default_rng(54)


def text(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes().hex()


rows = [random.normal(0, scale, 32) for scale in [1.0, 1e-3, 300.0, 1e20, 1e-20]]
rows.append(np.zeros(32))
rows.append(np.arange(32) / 8.0 - 2.0)  # ties
# Largest magnitudes about the steps of each mode: powers of two, largest values, halves of mantissas.
for largest in [448.0, 449.0, 6.0, 7.0, 7.5, 28.0, 30.0, 31.0, 57344.0, 61440.0, 63488.0, 1.75, 1.875, 1.9375, 256.0, 4.0]:
    row = random.uniform(-1, 1, 32) * largest
    row[random.integers(0, 32)] = -largest
    rows.append(row)
rows.append(np.where(np.arange(32) == 5, np.inf, 1.0))
rows = [torch.tensor(np.array(row), dtype=torch.float32) for row in rows]

for i, row in enumerate(rows):
    print("input", i, text(row))

ELEMENTS = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e2m3": DTYPE_FP6_E2M3,
    "e3m2": DTYPE_FP6_E3M2,
    "e2m1": torch.float4_e2m1fn_x2,
}
for name, element in ELEMENTS.items():
    for mode in ["FLOOR", "RCEIL", "CEIL", "EVEN"]:
        for i, row in enumerate(rows):
            scale, codes = to_mx(row.reshape(1, 32), element, 32, ScaleCalculationMode[mode])
            values = text(to_dtype(codes, scale, element, 32, torch.float32)) if mode == "FLOOR" else ""
            print("mx", name, mode.lower(), i, text(scale), text(codes), values)

for i, row in enumerate(rows):
    finite = row[torch.isfinite(row)].abs().max()
    scales = [None] + [per_tensor_amax_to_scale(finite * part) for part in [1.0, 3.0] if finite > 1e-25]
    for scale in scales:
        made = NVFP4Tensor.to_nvfp4(row.reshape(1, 32), 16, scale)
        number = struct.pack("<f", 1.0 if scale is None else scale.item()).hex()
        print("nvfp4", number, i, text(made.scale), text(made.qdata), text(made.dequantize(torch.float32)))

for name, element, largest in [("i8", torch.int8, 127.0), ("f8e4m3", torch.float8_e4m3fn, 448.0), ("f8e5m2", torch.float8_e5m2, 57344.0)]:
    for block in [16, 32]:
        for i, row in enumerate(rows):
            if not torch.isfinite(row).all() or row.abs().max() == 0:
                continue
            parts = row.reshape(-1, block)
            scale = parts.abs().amax(-1, keepdim=True) / largest
            codes = parts / scale
            codes = (codes.round().clamp(-127, 127) if name == "i8" else codes).to(element)
            print("f32", name, block, i, text(scale), text(codes))

for rows, per_row in [(3, 2), (130, 5), (256, 4)]:
    scales = ((7 * torch.arange(rows * per_row) + 1) % 251).to(torch.uint8).reshape(rows, per_row)
    print("blocked", rows, per_row, text(to_blocked(scales)))
