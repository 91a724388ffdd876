"""The reference for `examples/minilm`: all-MiniLM-L6-v2 in float64 numpy, from the model's description alone.

    python3 -m pip install numpy safetensors tokenizers
    python3 tests/golden/minilm/reference.py .tools/minilm > tests/golden/minilm/reference.json

Nothing here is shared with the library: the model is a BERT encoder of 6 layers (post-normalisation, erf GELU, 12 heads),
whose token embeddings are averaged over the sentence and scaled to length 1 (the model's `modules.json`).
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

SENTENCES = [
    "A matrix product is only as fast as the memory traffic around it.",
    "GEMM speed is limited by how often data moves.",
    "The cat sat on the mat.",
    "A kitten was sitting on a rug!",
    "Señor Müller ordered a crème brûlée at 7:45 p.m. for $12.50.",
    "Yes",
    "日本語の文 and tokenisation of unbelievably long antidisestablishmentarianism words, with <tags> & symbols #42",
]


def erf(x):
    return np.vectorize(math.erf)(x)


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Model:
    def __init__(self, folder):
        self.w = {name: array.astype(np.float64) for name, array in load_file(folder / "model.safetensors").items()
                  if array.dtype.kind == "f"}
        self.config = json.loads((folder / "config.json").read_text())
        self.max_length = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(self.max_length)

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], self.config["layer_norm_eps"])

    def attention(self, x, layer):
        heads = self.config["num_attention_heads"]
        split = lambda y: y.reshape(len(x), heads, -1).transpose(1, 0, 2)
        q, k, v = (split(self.linear(x, f"{layer}.attention.self.{name}")) for name in ("query", "key", "value"))
        weights = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
        joined = (weights @ v).transpose(1, 0, 2).reshape(x.shape)
        return self.norm(self.linear(joined, f"{layer}.attention.output.dense") + x, f"{layer}.attention.output.LayerNorm")

    def feed_forward(self, x, layer):
        h = self.linear(x, f"{layer}.intermediate.dense")
        h = 0.5 * h * (1.0 + erf(h / math.sqrt(2.0)))
        return self.norm(self.linear(h, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")

    def embed(self, sentence):
        tokens = self.tokenizer.encode(sentence).ids
        e = "embeddings."
        x = (self.w[e + "word_embeddings.weight"][tokens] + self.w[e + "position_embeddings.weight"][: len(tokens)]
             + self.w[e + "token_type_embeddings.weight"][0])
        x = self.norm(x, e + "LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            x = self.feed_forward(self.attention(x, f"encoder.layer.{i}"), f"encoder.layer.{i}")
        mean = x.mean(0)
        return tokens, mean / np.linalg.norm(mean)


def main():
    model = Model(Path(sys.argv[1]))
    tokens, embeddings = zip(*(model.embed(sentence) for sentence in SENTENCES))
    similarity = np.array(embeddings) @ np.array(embeddings).T
    rounded = lambda array: [[round(float(x), 9) for x in row] for row in array]
    json.dump({"sentences": SENTENCES, "tokens": tokens, "embeddings": rounded(embeddings),
               "similarity": rounded(similarity)}, sys.stdout, ensure_ascii=False)
    print()


main()
