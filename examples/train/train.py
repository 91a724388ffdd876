"""The training of `main.rs` beside it, in float64 numpy: the data, the network, its gradients and the optimiser from their
definitions alone. It prints the loss of each step.

    python3 -m pip install numpy
    python3 examples/train/train.py > examples/train/losses.txt

Numbers that both programs need to agree on come from integers: the hash below for data and first weights, and Philox4x32-10
(Salmon et al., SC 2011) for dropout, by the scheme that src/device/random.cuh states.
"""

import argparse
import math

import numpy as np

ROWS, FEATURES, HIDDEN, CLASSES = 256, 16, 256, 4
DROPOUT, EPSILON, RATE, DECAY = 0.125, 1e-5, 0.25, 0.875
U32 = np.uint64(0xFFFFFFFF)


def mixed(x):
    """The last steps of MurmurHash3 (Appleby): a bijection of 32 bits in which each bit depends on all."""
    x = np.asarray(x, np.uint64) & U32
    x = (x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B) & U32
    x = (x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35) & U32
    return x ^ (x >> np.uint64(16))


def hashed(seed, stream, first, count):
    """`count` words of 32 bits of a stream, from its word `first` on."""
    return mixed(mixed(mixed(seed) + np.uint64(stream)) ^ (np.arange(first, first + count, dtype=np.uint64) & U32))


def batch(seed, step):
    """Features are odd multiples of 1/256 between -1 and 1; the class says whether two pairs of them agree in sign."""
    words = hashed(seed, 0, step * ROWS * FEATURES, ROWS * FEATURES)
    x = ((words >> np.uint64(24)).astype(np.float64) * 2 - 255) / 256
    x = x.reshape(ROWS, FEATURES)
    agree = lambda i: (x[:, i] > 0) == (x[:, i + 1] > 0)
    return x, agree(0) + 2 * agree(2)


def first_weights(seed, stream, rows, columns):
    """Uniform within one over the root of the number of inputs, which is a power of two."""
    words = hashed(seed, stream, 0, rows * columns)
    uniform = ((words >> np.uint64(8)).astype(np.float64) * 2 + 1 - 2**24) / 2**24
    return uniform.reshape(rows, columns) / math.sqrt(rows)


def philox(counter, key):
    for _ in range(10):
        a, b, c, d = counter
        of_a, of_c = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        shift = np.uint64(32)
        counter = (of_c >> shift) ^ b ^ key[0], of_c & U32, (of_a >> shift) ^ d ^ key[1], of_a & U32
        key = (key[0] + np.uint64(0x9E3779B9)) & U32, (key[1] + np.uint64(0xBB67AE85)) & U32
    return counter


def uniform(seed, offset, rows, columns):
    """The numbers from 0 to 1 that decide what is dropped: by the seed, the step, the row and the column."""
    halves = lambda x: (np.uint64(x & 0xFFFFFFFF), np.uint64(x >> 32))
    row, block = np.meshgrid(np.arange(rows, dtype=np.uint64), np.arange(columns // 4, dtype=np.uint64), indexing="ij")
    low, high = (np.full_like(row, half) for half in halves(offset))
    words = np.stack(philox((block, row, low, high), halves(seed)), axis=-1).reshape(rows, columns)
    return (words >> np.uint64(8)).astype(np.float64) / 2**24


erf = np.vectorize(math.erf)


def losses(steps, seed):
    w = {
        "expand": first_weights(seed, 1, FEATURES, HIDDEN), "expand_bias": np.zeros(HIDDEN),
        "contract": first_weights(seed, 2, HIDDEN, FEATURES), "contract_bias": np.zeros(FEATURES),
        "weight": np.ones(FEATURES), "shift": np.zeros(FEATURES),
        "classify": first_weights(seed, 3, FEATURES, CLASSES), "classify_bias": np.zeros(CLASSES),
    }
    velocity = {name: np.zeros_like(value) for name, value in w.items()}
    for step in range(steps):
        x, labels = batch(seed, step)
        one_hot = np.eye(CLASSES)[labels]

        # Forward.
        z = x @ w["expand"] + w["expand_bias"]
        cumulative = 0.5 * (1 + erf(z / math.sqrt(2)))
        kept = (uniform(seed, step, ROWS, HIDDEN) >= DROPOUT) / (1 - DROPOUT)
        h = z * cumulative * kept
        s = h @ w["contract"] + w["contract_bias"] + x
        centred = s - s.mean(1, keepdims=True)
        factor = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON)
        normal = centred * factor
        y = normal * w["weight"] + w["shift"]
        logits = y @ w["classify"] + w["classify_bias"]
        e = np.exp(logits - logits.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        yield -np.log(p[np.arange(ROWS), labels]).mean()

        # Backward.
        g = {}
        d_logits = (p - one_hot) / ROWS
        g["classify"], g["classify_bias"] = y.T @ d_logits, d_logits.sum(0)
        d_y = d_logits @ w["classify"].T
        g["weight"], g["shift"] = (d_y * normal).sum(0), d_y.sum(0)
        d_normal = d_y * w["weight"]
        d_s = factor * (d_normal - d_normal.mean(1, keepdims=True)
                        - normal * (d_normal * normal).mean(1, keepdims=True))
        g["contract"], g["contract_bias"] = h.T @ d_s, d_s.sum(0)
        d_h = d_s @ w["contract"].T
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        d_z = d_h * kept * (cumulative + z * density)
        g["expand"], g["expand_bias"] = x.T @ d_z, d_z.sum(0)

        # Gradient descent with momentum.
        for name, gradient in g.items():
            velocity[name] = DECAY * velocity[name] + gradient
            w[name] -= RATE * velocity[name]


def main():
    parser = argparse.ArgumentParser(description="prints the loss of each step of the training, in float64 numpy")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2024)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    for loss in losses(arguments.steps, arguments.seed):
        print(f"{loss:.9f}")


if __name__ == "__main__":
    main()
