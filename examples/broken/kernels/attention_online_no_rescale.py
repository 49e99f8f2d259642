"""attention with an online softmax over tiles of 32 keys that does not rescale what it has when the maximum grows.

The sum of weights is rescaled, the accumulated output is not. Hidden where all keys fit into one tile: (1, 2, 16, 64) with
32 keys passes.
"""
import numpy as np

BLOCK_N = 32


def attention(inputs):
    q, k, v = (inputs[name].astype(np.float32) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    with np.errstate(all="ignore"):
        most = np.full(q.shape[:-1] + (1,), -np.inf, np.float32)
        total = np.zeros_like(most)
        acc = np.zeros_like(q)
        for start in range(0, k.shape[2], BLOCK_N):
            tile = slice(start, start + BLOCK_N)
            scores = q @ k[:, :, tile].swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
            now = np.maximum(most, scores.max(axis=-1, keepdims=True))
            alpha = np.exp(most - now)
            weights = np.exp(scores - now)
            total = total * alpha + weights.sum(axis=-1, keepdims=True)
            acc = acc + weights @ v[:, :, tile]  # the fault: acc * alpha would be right
            most = now
        return (acc / total).astype(inputs["q"].dtype)
