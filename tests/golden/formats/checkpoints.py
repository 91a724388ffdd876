"""Writes checkpoints.safetensors: layers as checkpoints hold them, each with its weights as f32 in `LAYER.values`.

    python3 -m pip install torch==2.15.0 torchao==0.18.0 compressed-tensors==0.20.1 safetensors==0.8.0
    python3 -m pip install --no-deps autoawq==0.2.9
    python3 tests/golden/formats/checkpoints.py

AWQ's values are those of AutoAWQ's `dequantize_gemm`, compressed-tensors' those of its own compressor, torchao's those of
`IntxUnpackedToInt8Tensor`. GPTQ's packages need a GPU to import: its layers are packed here, by the formula of its paper's
code, `scale * (code - zero)` with the zero point stored less 1 in version 1.
"""

import importlib.util
import sysconfig
from pathlib import Path

import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from torchao.quantization import IntxUnpackedToInt8Tensor
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

torch.manual_seed(54)
N, K, GROUP = 16, 64, 32
GROUPS = K // GROUP
file = {}


def words(codes):
    """32 bits of neighbours along the last dimension, the first in the lowest bits."""
    bits = 32 // codes.shape[-1]
    shifts = torch.arange(codes.shape[-1]) * bits
    packed = (codes.to(torch.int64) << shifts).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def gptq(name, bits, version, g_idx):
    per_word = 32 // bits
    codes = torch.randint(0, 2**bits, (K, N))
    zeros = torch.randint(1, 2**bits, (GROUPS, N))
    scales = (torch.rand(GROUPS, N) / 8 + 0.01).half()
    file[f"{name}.qweight"] = words(codes.reshape(K // per_word, per_word, N).transpose(1, 2))
    file[f"{name}.qzeros"] = words((zeros - int(version == 1)).reshape(GROUPS, N // per_word, per_word))
    file[f"{name}.scales"] = scales
    file[f"{name}.g_idx"] = g_idx.to(torch.int32)
    file[f"{name}.values"] = (scales.float()[g_idx] * (codes - zeros[g_idx])).T.contiguous()


in_order = torch.arange(K) // GROUP
gptq("gptq.v1", 4, 1, in_order)
gptq("gptq.v2", 4, 2, in_order)
gptq("gptq.bytes", 8, 1, in_order)
gptq("gptq.act_order", 4, 2, in_order[torch.randperm(K)])

# AutoAWQ, without its package's imports.
folder = Path(sysconfig.get_paths()["purelib"]) / "awq/utils/packing_utils.py"
spec = importlib.util.spec_from_file_location("packing_utils", folder)
awq = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awq)
any_words = lambda *shape: torch.randint(-(2**31), 2**31, shape).to(torch.int32)
qweight, qzeros, scales = any_words(K, N // 8), any_words(GROUPS, N // 8), (torch.rand(GROUPS, N) / 8).half()
file.update({"awq.qweight": qweight, "awq.qzeros": qzeros, "awq.scales": scales})
file["awq.values"] = awq.dequantize_gemm(qweight, qzeros, scales.float(), 4, GROUP).T.contiguous()

weight = torch.randn(N, 40)  # K is no multiple of the 8 codes of a word in every row of words
for name, bits, symmetric, group in [("sym", 4, True, 20), ("asym", 4, False, 20), ("channel", 4, True, None), ("bytes", 8, False, 20)]:
    strategy = {"strategy": "channel"} if group is None else {"strategy": "group", "group_size": group}
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(num_bits=bits, symmetric=symmetric, **strategy))
    groups = 40 // (group or 40)
    state = {"weight": weight.clone(), "weight_scale": torch.rand(N, groups) / 4 + 0.1}
    if not symmetric:
        state["weight_zero_point"] = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (N, groups)).to(torch.int8)
    made = PackedQuantizationCompressor.compress(state, scheme)
    file.update({f"ct.{name}.{key}": value for key, value in made.items()})
    file[f"ct.{name}.values"] = PackedQuantizationCompressor.decompress(made, scheme)["weight"].contiguous()

for bits, kind in [(4, torch.int4), (8, torch.int8)]:
    made = IntxUnpackedToInt8Tensor.from_hp(torch.randn(N, K), (1, GROUP), kind)
    tensors, _ = flatten_tensor_state_dict({f"ao.intx{bits}.weight": made})
    file.update(tensors)
    file[f"ao.intx{bits}.values"] = made.dequantize()
# `Int4Tensor`'s packing is in a library for GPUs: two signed codes in a byte, the even one in the lower half.
codes = torch.randint(-8, 8, (N, K))
scales = (torch.rand(GROUPS, N) / 8).bfloat16()
file["ao.int4._weight_qdata"] = ((codes[:, ::2] & 15) | ((codes[:, 1::2] & 15) << 4)).to(torch.uint8).view(torch.int8)
file["ao.int4._weight_scale"] = scales
file["ao.int4._weight_zero_point"] = torch.zeros_like(scales)
file["ao.int4.values"] = codes * scales.float().repeat_interleave(GROUP, 0).T

save_file({name: tensor.contiguous() for name, tensor in file.items()}, Path(__file__).parent / "checkpoints.safetensors")
for name, tensor in sorted(file.items()):
    print(name, tensor.dtype, tuple(tensor.shape))
