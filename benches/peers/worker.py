"""Runs one library's side of the bench `peers`: reads commands from standard input, writes a line for each.

`prepare WORK…` makes inputs and compiles; the answer is `ready` and three elements of the result, or `no REASON`.
`run N` calls it once, to warm up, and then N times; the answer is the seconds of these together.
"""

import json
import os
import struct
import sys
import time

THREADS = int(os.environ["PEER_THREADS"])
LIBRARY = sys.argv[1]
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


class Numpy:
    version = np.__version__

    def convolution(self, images, extent, channels, layer):
        raise Refused("no convolution")

    def minilm(self, sentences, tokens):
        raise Refused("no model")

    def product(self, m, n, k, element, weights, epilogue):
        if element != "f32":
            raise Refused("no products of 16-bit numbers")
        a, b, bias, residual = product_inputs(m, n, k, weights)
        if epilogue == "plain":
            return lambda: a @ b
        if epilogue == "row_sums":
            def with_sums():
                d = a @ b
                return d, d.sum(axis=1)
            return with_sums

        def fused():
            x = a @ b
            x += bias
            y = np.tanh(0.7978845608 * (x + 0.044715 * x * x * x))
            return 0.5 * x * (1 + y) + residual
        return fused

    def argmax(self, x):
        return lambda: x.argmax(axis=1)

    def softmax(self, x, axis):
        def run():
            y = x - x.max(axis=axis, keepdims=True)
            np.exp(y, out=y)
            y /= y.sum(axis=axis, keepdims=True)
            return y
        return run

    def layer_norm(self, x):
        def run():
            y = x - x.mean(axis=1, keepdims=True)
            y /= np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5)
            return y
        return run

    def cumsum(self, x, axis):
        return lambda: np.cumsum(x, axis=axis)

    def recurrence(self, a, x):
        raise Refused("no recurrence")

    def sum(self, x, axis):
        return lambda: x.sum(axis=axis)

    def pool(self, x, mean):
        n, c, h, w = x.shape
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
        return lambda: windows.mean(axis=(3, 5)) if mean else windows.max(axis=(3, 5))

    def gather(self, x, index):
        return lambda: np.take(x, index, axis=0)

    def group_norm(self, x):
        n, c, h, w = x.shape

        def run():
            y = x.reshape(n, 8, -1)
            y = y - y.mean(axis=2, keepdims=True)
            y /= np.sqrt((y * y).mean(axis=2, keepdims=True) + 1e-5)
            return y.reshape(n, c, h, w)
        return run

    def cummax(self, x, axis):
        return lambda: np.maximum.accumulate(x, axis=axis)

    def cross_entropy(self, x, classes):
        rows = np.arange(len(x))

        def run():
            largest = x.max(axis=1)
            return np.log(np.exp(x - largest[:, None]).sum(axis=1)) + largest - x[rows, classes]
        return run

    def variance(self, x, axis):
        return lambda: x.var(axis=axis)

    def pairs(self, x, y, of):
        """By scipy's distances, which are f64s; what it has not, by broadcasting some rows at a time."""
        if of == "min_plus":
            return lambda: np.concatenate([(x[i:i + 4, None] + y).min(axis=2) for i in range(0, len(x), 4)])
        try:
            from scipy.spatial.distance import cdist
        except ImportError:
            raise Refused("scipy is not installed")
        if of == "manhattan":
            return lambda: cdist(x, y, "cityblock")
        squared = lambda: cdist(x, y, "sqeuclidean")
        return {
            "squared": squared,
            "gaussian": lambda: np.exp(-squared()).sum(axis=1),
            "nearest": lambda: squared().argmin(axis=1),
        }[of]


class Torch:
    def __init__(self):
        import torch
        self.torch = torch
        self.version = torch.__version__
        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)

    def tensor(self, x):
        return self.torch.from_numpy(np.array(x)) if x.flags["C_CONTIGUOUS"] else self.torch.from_numpy(np.array(x.T)).T

    def product(self, m, n, k, element, weights, epilogue):
        torch = self.torch
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[element]
        a, b, bias, residual = (self.tensor(x).to(dtype) for x in product_inputs(m, n, k, weights))
        if epilogue == "plain":
            return lambda: a @ b
        if epilogue == "row_sums":
            def with_sums():
                d = a @ b
                return d, d.sum(dim=1)
            return with_sums
        gelu = torch.nn.functional.gelu
        return lambda: gelu(torch.addmm(bias, a, b), approximate="tanh") + residual

    def convolution(self, images, extent, channels, layer):
        x, w, bias = (self.torch.from_numpy(x) for x in convolution_inputs(images, extent, channels))
        # Channels last in memory, which is what is fastest here.
        x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        conv2d = self.torch.nn.functional.conv2d
        if layer:
            return lambda: self.torch.relu_(conv2d(x, w, bias, padding=1)).permute(0, 2, 3, 1)
        return lambda: conv2d(x, w, padding=1).permute(0, 2, 3, 1)

    def minilm(self, sentences, tokens):
        torch, f = self.torch, self.torch.nn.functional
        ids, (word, place, norm), layers = minilm_inputs(sentences, tokens)
        given = lambda pair: tuple(torch.from_numpy(np.array(x)) for x in pair)
        (word, place), norm, ids = given((word, place)), given(norm), torch.from_numpy(ids)
        layers = [[given(pair) for pair in layer] for layer in layers]

        def normalised(x, pair):
            return f.layer_norm(x, (HIDDEN,), *pair, EPSILON)

        def run():
            x = normalised(word[ids] + place, norm)
            for attention, joined, norm_1, expand, contract, norm_2 in layers:
                parts = f.linear(x, *attention).view(sentences, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
                y = f.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(sentences, tokens, HIDDEN)
                x = normalised(f.linear(y, *joined) + x, norm_1)
                x = normalised(f.linear(f.gelu(f.linear(x, *expand)), *contract) + x, norm_2)
            return f.normalize(x.mean(dim=1), dim=1)
        return run

    def argmax(self, x):
        x = self.tensor(x)
        return lambda: x.argmax(dim=1)

    def softmax(self, x, axis):
        x = self.tensor(x)
        return lambda: self.torch.softmax(x, dim=axis)

    def layer_norm(self, x):
        x = self.tensor(x)
        return lambda: self.torch.nn.functional.layer_norm(x, x.shape[1:])

    def cumsum(self, x, axis):
        x = self.tensor(x)
        return lambda: self.torch.cumsum(x, dim=axis)

    def recurrence(self, a, x):
        raise Refused("no recurrence")

    def sum(self, x, axis):
        x = self.tensor(x)
        return lambda: x.sum(dim=axis)

    def pool(self, x, mean):
        x, f = self.tensor(x), self.torch.nn.functional
        return lambda: f.avg_pool2d(x, 2) if mean else f.max_pool2d(x, 2)

    def gather(self, x, index):
        x, index = self.tensor(x), self.tensor(index)
        return lambda: self.torch.index_select(x, 0, index)

    def group_norm(self, x):
        x = self.tensor(x)
        return lambda: self.torch.nn.functional.group_norm(x, 8)

    def cummax(self, x, axis):
        x = self.tensor(x)
        return lambda: self.torch.cummax(x, dim=axis).values

    def cross_entropy(self, x, classes):
        x, classes = self.tensor(x), self.tensor(classes.astype(np.int64))
        return lambda: self.torch.nn.functional.cross_entropy(x, classes, reduction="none")

    def variance(self, x, axis):
        x = self.tensor(x)
        return lambda: x.var(dim=axis, correction=0)

    def pairs(self, x, y, of):
        """Distances from differences: those from a product lose the digits of near rows."""
        x, y, torch = self.tensor(x), self.tensor(y), self.torch
        if of == "min_plus":
            return lambda: torch.cat([(x[i:i + 4, None] + y).amin(dim=2) for i in range(0, len(x), 4)])
        if of == "manhattan":
            return lambda: torch.cdist(x, y, p=1)
        squared = lambda: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return {
            "squared": squared,
            "gaussian": lambda: squared().neg_().exp_().sum(dim=1),
            "nearest": lambda: squared().argmin(dim=1),
        }[of]


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        self.jax, self.jnp = jax, jnp
        self.version = jax.__version__

    def compiled(self, f, *arguments):
        arguments = [self.jnp.asarray(x) for x in arguments]
        compiled = self.jax.jit(f).lower(*arguments).compile()
        return lambda: self.jax.block_until_ready(compiled(*arguments))

    def product(self, m, n, k, element, weights, epilogue):
        jnp = self.jnp
        dtype = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}[element]
        a, b, bias, residual = product_inputs(m, n, k, weights)
        given = b.T if weights == "nk" else b

        def product(a, b):
            return a @ (b.T if weights == "nk" else b)

        def run(a, b, bias, residual):
            d = product(a, b)
            if epilogue == "plain":
                return d
            if epilogue == "row_sums":
                return d, d.sum(axis=1)
            return self.jax.nn.gelu(d + bias, approximate=True) + residual
        return self.compiled(run, *(np.ascontiguousarray(x).astype(dtype) for x in (a, given, bias, residual)))

    def convolution(self, images, extent, channels, layer):
        def run(x, w, bias):
            y = self.jax.lax.conv_general_dilated(
                x, w, (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "OHWI", "NHWC"))
            return self.jnp.maximum(y + bias, 0) if layer else y
        return self.compiled(run, *convolution_inputs(images, extent, channels))

    def minilm(self, sentences, tokens):
        jax, jnp = self.jax, self.jnp

        def normalised(x, pair):
            y = x - x.mean(axis=-1, keepdims=True)
            return y * jax.lax.rsqrt((y * y).mean(axis=-1, keepdims=True) + EPSILON) * pair[0] + pair[1]

        def linear(x, pair):
            return x @ pair[0].T + pair[1]

        def run(ids, embeddings, layers):
            word, place, norm = embeddings
            x = normalised(word[ids] + place, norm)
            for attention, joined, norm_1, expand, contract, norm_2 in layers:
                query, key, value = jnp.moveaxis(linear(x, attention).reshape(sentences, tokens, 3, HEADS, -1), 2, 0)
                scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(HIDDEN // HEADS)
                y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)
                x = normalised(linear(y.reshape(sentences, tokens, HIDDEN), joined) + x, norm_1)
                x = normalised(linear(jax.nn.gelu(linear(x, expand), approximate=False), contract) + x, norm_2)
            mean = x.mean(axis=1)
            return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)

        arguments = jax.tree.map(jnp.asarray, minilm_inputs(sentences, tokens))
        compiled = jax.jit(run).lower(*arguments).compile()
        return lambda: jax.block_until_ready(compiled(*arguments))

    def argmax(self, x):
        return self.compiled(lambda x: self.jnp.argmax(x, axis=1), x)

    def softmax(self, x, axis):
        return self.compiled(lambda x: self.jax.nn.softmax(x, axis=axis), x)

    def layer_norm(self, x):
        def run(x):
            y = x - x.mean(axis=1, keepdims=True)
            return y * self.jax.lax.rsqrt((y * y).mean(axis=1, keepdims=True) + 1e-5)
        return self.compiled(run, x)

    def cumsum(self, x, axis):
        return self.compiled(lambda x: self.jnp.cumsum(x, axis=axis), x)

    def recurrence(self, a, x):
        def step(state, now):
            state = now[0] * state + now[1]
            return state, state
        return self.compiled(lambda a, x: self.jax.lax.scan(step, self.jnp.zeros_like(x[0]), (a, x))[1], a, x)

    def sum(self, x, axis):
        return self.compiled(lambda x: x.sum(axis=axis), x)

    def pool(self, x, mean):
        n, c, h, w = x.shape

        def run(x):
            windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
            return windows.mean(axis=(3, 5)) if mean else windows.max(axis=(3, 5))
        return self.compiled(run, x)

    def gather(self, x, index):
        return self.compiled(lambda x, index: x[index], x, index)

    def group_norm(self, x):
        n, c, h, w = x.shape

        def run(x):
            y = x.reshape(n, 8, -1)
            y = y - y.mean(axis=2, keepdims=True)
            y = y * self.jax.lax.rsqrt((y * y).mean(axis=2, keepdims=True) + 1e-5)
            return y.reshape(n, c, h, w)
        return self.compiled(run, x)

    def cummax(self, x, axis):
        return self.compiled(lambda x: self.jax.lax.cummax(x, axis=axis), x)

    def cross_entropy(self, x, classes):
        def run(x, classes):
            logarithms = self.jax.nn.log_softmax(x, axis=1)
            return -self.jnp.take_along_axis(logarithms, classes[:, None], axis=1)[:, 0]
        return self.compiled(run, x, classes)

    def variance(self, x, axis):
        return self.compiled(lambda x: x.var(axis=axis), x)

    def pairs(self, x, y, of):
        jnp = self.jnp

        def squared(x, y):
            return jnp.square(x[:, None] - y).sum(axis=2)
        return self.compiled({
            "min_plus": lambda x, y: (x[:, None] + y).min(axis=2),
            "manhattan": lambda x, y: jnp.abs(x[:, None] - y).sum(axis=2),
            "squared": squared,
            "gaussian": lambda x, y: jnp.exp(-squared(x, y)).sum(axis=1),
            "nearest": lambda x, y: squared(x, y).argmin(axis=1),
        }[of], x, y)


class Onnxruntime:
    def __init__(self):
        import onnx
        import onnxruntime
        self.onnx, self.runtime = onnx, onnxruntime
        self.version = onnxruntime.__version__

    def session(self, nodes, inputs, constants=()):
        helper, numpy_helper = self.onnx.helper, self.onnx.numpy_helper
        kind = {np.dtype(np.float32): self.onnx.TensorProto.FLOAT, np.dtype(np.int64): self.onnx.TensorProto.INT64}
        graph = helper.make_graph(
            nodes, "work",
            [helper.make_tensor_value_info(n, kind[x.dtype], x.shape) for n, x in inputs.items()],
            [self.onnx.ValueInfoProto(name=name) for name in nodes[-1].output],
            [numpy_helper.from_array(np.ascontiguousarray(x), n) for n, x in constants],
        )
        versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 3
        session = self.runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feed = {n: np.ascontiguousarray(x) for n, x in inputs.items()}
        return lambda: session.run(None, feed)

    def product(self, m, n, k, element, weights, epilogue):
        if element != "f32":
            raise Refused("only f32 here")
        node = self.onnx.helper.make_node
        a, b, bias, residual = product_inputs(m, n, k, weights)
        nodes = [node("Gemm", ["a", "b"] if epilogue != "fused" else ["a", "b", "bias"], ["p"],
                      transB=int(weights == "nk"))]
        constants = [("b", b.T if weights == "nk" else b)]
        inputs = {"a": a}
        if epilogue == "row_sums":
            # The last node's outputs are the results.
            raise Refused("one output only here")
        if epilogue == "fused":
            constants.append(("bias", bias))
            inputs["residual"] = residual
            nodes += [node("Gelu", ["p"], ["g"], approximate="tanh"), node("Add", ["g", "residual"], ["d"])]
        return self.session(nodes, inputs, constants)

    def one(self, x, operation, constants=(), **attributes):
        names = ["x"] + [n for n, _ in constants]
        return self.session([self.onnx.helper.make_node(operation, names, ["y"], **attributes)], {"x": x}, constants)

    def convolution(self, images, extent, channels, layer):
        raise Refused("its images are [N, C, H, W]")

    def minilm(self, sentences, tokens):
        """With the fused nodes that its optimiser for transformers makes."""
        ids, (word, place, norm), layers = minilm_inputs(sentences, tokens)
        nodes, constants = [], []

        def constant(x):
            constants.append((f"c{len(constants)}", x))
            return constants[-1][0]

        def node(operation, inputs, fused=False, **attributes):
            name = f"n{len(nodes)}"
            domain = "com.microsoft" if fused else ""
            nodes.append(self.onnx.helper.make_node(operation, inputs, [name], domain=domain, **attributes))
            return name

        def product(x, weight):
            return node("MatMul", [x, constant(weight.T)])

        def added_and_normalised(x, residual, bias, pair):
            inputs = [x, residual, *map(constant, pair), constant(bias)]
            return node("SkipLayerNormalization", inputs, fused=True, epsilon=EPSILON)

        x = node("Add", [node("Gather", [constant(word), "ids"]), constant(place)])
        x = node("LayerNormalization", [x, *map(constant, norm)], axis=-1, epsilon=EPSILON)
        for attention, joined, norm_1, expand, contract, norm_2 in layers:
            weight, bias = attention
            y = node("Attention", [x, constant(weight.T), constant(bias)], fused=True, num_heads=HEADS)
            x = added_and_normalised(product(y, joined[0]), x, joined[1], norm_1)
            y = node("BiasGelu", [product(x, expand[0]), constant(expand[1])], fused=True)
            x = added_and_normalised(product(y, contract[0]), x, contract[1], norm_2)
        mean = node("ReduceMean", [x, constant(np.array([1]))], keepdims=0)
        node("LpNormalization", [mean], axis=-1, p=2)
        return self.session(nodes, {"ids": ids}, constants)

    def argmax(self, x):
        return self.one(x, "ArgMax", axis=1, keepdims=0)

    def softmax(self, x, axis):
        return self.one(x, "Softmax", axis=axis)

    def layer_norm(self, x):
        return self.one(x, "LayerNormalization", [("w", np.ones(x.shape[1], np.float32))], axis=1)

    def cumsum(self, x, axis):
        return self.one(x, "CumSum", [("axis", np.array(axis, np.int64))])

    def recurrence(self, a, x):
        raise Refused("no recurrence")

    def sum(self, x, axis):
        return self.one(x, "ReduceSum", [("axes", np.array([axis], np.int64))], keepdims=0)

    def pool(self, x, mean):
        return self.one(x, "AveragePool" if mean else "MaxPool", kernel_shape=[2, 2], strides=[2, 2])

    def gather(self, x, index):
        node = self.onnx.helper.make_node("Gather", ["x", "index"], ["y"])
        return self.session([node], {"x": x, "index": index.astype(np.int64)})

    def group_norm(self, x):
        scale, bias = np.ones(x.shape[1], np.float32), np.zeros(x.shape[1], np.float32)
        # The version of operations that `session` has takes these for each group.
        return self.one(x, "GroupNormalization", [("scale", scale[:8]), ("bias", bias[:8])], num_groups=8, epsilon=1e-5)

    def cummax(self, x, axis):
        raise Refused("no operation for it")

    def cross_entropy(self, x, classes):
        node = self.onnx.helper.make_node("SoftmaxCrossEntropyLoss", ["x", "classes"], ["y"], reduction="none")
        return self.session([node], {"x": x, "classes": classes.astype(np.int64)})

    def variance(self, x, axis):
        raise Refused("no operation for it")

    def pairs(self, x, y, of):
        raise Refused("no operation for it")


def matrix(rows, columns):
    return values(rows * columns, 0.02).reshape(rows, columns)


def prepare(library, words):
    kind, *rest = words
    if kind == "product":
        m, n, k = map(int, rest[:3])
        return library.product(m, n, k, *rest[3:])
    if kind == "convolution":
        images, extent, channels, layer = map(int, rest)
        return library.convolution(images, extent, channels, bool(layer))
    if kind == "minilm":
        return library.minilm(*map(int, rest))
    if kind == "pairs":
        m, n, k = map(int, rest[:3])
        return library.pairs(values(m * k, 0.02).reshape(m, k), values(n * k, 0.01).reshape(n, k), rest[3])
    if kind == "pool":
        *shape, mean = map(int, rest)
        return library.pool(image_inputs(*shape), bool(mean))
    if kind == "group_norm":
        return library.group_norm(image_inputs(*map(int, rest)))
    rows, columns, *axis = map(int, rest)
    if kind == "gather":
        return library.gather(matrix(rows, columns), places(axis[0], rows))
    if kind == "cross_entropy":
        return library.cross_entropy(matrix(rows, columns), places(rows, columns))
    if kind == "recurrence":
        return library.recurrence(np.abs(matrix(rows, columns)) * 0.9, matrix(rows, columns))
    return getattr(library, kind)(matrix(rows, columns), *axis)


def sample(result):
    """The first, middle and last element of what a call gives (of its first tensor)."""
    first = result[0] if isinstance(result, (tuple, list)) else result
    if hasattr(first, "detach"):
        first = first.float().numpy()
    flat = np.asarray(first).astype(np.float32).reshape(-1)
    return [float(flat[i]) for i in (0, len(flat) // 2, len(flat) - 1)]


def main():
    library = {"numpy": Numpy, "torch": Torch, "jax": Jax, "onnxruntime": Onnxruntime}[LIBRARY]()
    # What libraries print themselves must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("hello", library.version, file=answers, flush=True)
    call = None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "prepare":
            try:
                call = prepare(library, words)
                answer = "ready " + " ".join(map(repr, sample(call())))
            except Refused as refused:
                answer = f"no {refused}"
            except Exception as error:
                answer = "no " + str(error).replace("\n", " ")[:200]
        else:
            count = int(words[0])
            call()
            start = time.perf_counter()
            for _ in range(count):
                call()
            answer = repr(time.perf_counter() - start)
        print(answer, file=answers, flush=True)


main()
