"""The works by PyTorch: each method gives a function to call."""

from inputs import (
    EPSILON,
    HEADS,
    HIDDEN,
    THREADS,
    Refused,
    convolution_inputs,
    minilm_inputs,
    product_inputs,
)
import numpy as np


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
