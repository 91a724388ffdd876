"""The inputs of every contestant, and the number of threads, which libraries read when they are loaded."""

import json
import os
import struct

THREADS = int(os.environ["PEER_THREADS"])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(THREADS)

import numpy as np


def values(count, scale):
    """The inputs of every contestant: see `value` in ours.rs."""
    return (((np.arange(count, dtype=np.int64) * 37) % 101 - 50) * scale).astype(np.float32)


def convolution_inputs(images, extent, channels):
    x = values(images * extent * extent * channels, 0.01).reshape(images, extent, extent, channels)
    w = values(channels * 9 * channels, 0.01).reshape(channels, 3, 3, channels)
    return x, w, values(channels, 0.02)


def image_inputs(count, channels, extent):
    return values(count * channels * extent * extent, 0.02).reshape(count, channels, extent, extent)


def places(count, below):
    return (np.arange(count, dtype=np.int64) * 7919 % below).astype(np.int32)


def product_inputs(m, n, k, weights):
    a = values(m * k, 0.01).reshape(m, k)
    b = values(k * n, 0.01)
    b = b.reshape(k, n) if weights == "kn" else b.reshape(n, k).T
    return a, b, values(n, 0.02), values(m * n, 0.02).reshape(m, n)


HIDDEN, HEADS, LAYERS = 384, 12, 6
EPSILON = 1e-12


def minilm_inputs(sentences, tokens):
    """The ids of the tokens, and what `tensor` gives by name of the model in the folder `PEER_MINILM`."""
    with open(os.path.join(os.environ["PEER_MINILM"], "model.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()

    def tensor(name):
        first, end = header[name]["data_offsets"]
        return np.frombuffer(data[first:end], np.float32).reshape(header[name]["shape"])

    def layer(number):
        """Weights `[out, in]` and biases: queries, keys and values together; of the joined heads; of both products after."""
        dense = lambda name: (tensor(f"{prefix}.{name}.weight"), tensor(f"{prefix}.{name}.bias"))
        prefix = f"encoder.layer.{number}"
        parts = [dense(f"attention.self.{part}") for part in ("query", "key", "value")]
        attention = tuple(np.concatenate([part[i] for part in parts]) for i in range(2))
        names = ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense",
                 "output.LayerNorm")
        return [attention, *(dense(name) for name in names)]

    embeddings = tensor("embeddings.word_embeddings.weight"), tensor("embeddings.position_embeddings.weight")[:tokens]
    norm = tensor("embeddings.LayerNorm.weight"), tensor("embeddings.LayerNorm.bias")
    place = embeddings[1] + tensor("embeddings.token_type_embeddings.weight")[0]
    ids = (np.arange(sentences * tokens) * 37 % 1009 + 1000).reshape(sentences, tokens)
    return ids, (embeddings[0], place, norm), [layer(i) for i in range(LAYERS)]


class Refused(Exception):
    pass


def matrix(rows, columns):
    return values(rows * columns, 0.02).reshape(rows, columns)
