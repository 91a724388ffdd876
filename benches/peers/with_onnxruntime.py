"""The works by onnxruntime: each method gives a function to call."""

from inputs import EPSILON, HEADS, THREADS, Refused, minilm_inputs, product_inputs
import numpy as np


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
