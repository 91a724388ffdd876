"""The works by jax (XLA): each method gives a function to call."""

from inputs import EPSILON, HEADS, HIDDEN, convolution_inputs, minilm_inputs, product_inputs
import numpy as np


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
