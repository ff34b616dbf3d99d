"""Inputs whose sparsity only the data knows, drawn from stated distributions; the same seed gives the same arrays.

    routing(random, 4096, 64, top=2)          Zipf: expert of rank r with probability proportional to 1 / r ** skew, distinct for one token
    lengths(random, 32, 128)                  log-normal sentences: median a fifth of the longest, sigma 0.6, at least 1, cut at the longest
    activations(random, 4096, 3072, 0.95)     zeros behind a ReLU: blocks of 32 tokens x 1 channel, each dead with the given chance, and
                                              half of what is left in live blocks too where fine is asked for
    cells(random, m, k, (32, 1), 0.95)        a normal matrix whose cells are each zero with the given chance
    pruned(random, m, k, (32, 64), 0.9)       magnitude pruning: the cells of least sum of squares go, exactly that share of them
    window_and_global(s, 256, 4)              each query sees `window` keys on either side and a few global keys; global queries see all
    vertical_slash(random, s, 8, 8)           causal: some columns, and some diagonals in bands of 64 keys a block of 64 queries
    blocks(random, s, 128, 0.9)               square blocks of a mask, each dead with the given chance but for the diagonal's
"""

import numpy as np


def routing(random, tokens, experts, top=1, skew=1.0):
    share = 1.0 / np.arange(1, experts + 1) ** skew
    # The largest of log share + Gumbel noise are a draw without replacement.
    noise = random.gumbel(size=(tokens, experts)) + np.log(share / share.sum())
    chosen = np.argsort(-noise, axis=1)[:, :top]
    return chosen[:, 0] if top == 1 else chosen


def lengths(random, sentences, longest):
    drawn = np.exp(random.normal(np.log(longest / 5), 0.6, sentences))
    return np.clip(np.round(drawn), 1, longest).astype(np.int32)


def live_cells(random, rows, columns, tile, zeros):
    live = random.random((-(-rows // tile[0]), -(-columns // tile[1]))) >= zeros
    return np.repeat(np.repeat(live, tile[0], 0), tile[1], 1)[:rows, :columns]


def cells(random, rows, columns, tile, zeros):
    values = random.standard_normal((rows, columns)).astype(np.float32)
    return values * live_cells(random, rows, columns, tile, zeros)


def activations(random, tokens, channels, zeros, fine=False):
    values = np.abs(random.standard_normal((tokens, channels))).astype(np.float32) * live_cells(random, tokens, channels, (32, 1), zeros)
    return values * (random.random(values.shape) < 0.5) if fine else values


def pruned(random, rows, columns, tile, zeros):
    values = random.standard_normal((rows, columns)).astype(np.float32)
    tall, wide = -(-rows // tile[0]), -(-columns // tile[1])
    padded = np.zeros((tall * tile[0], wide * tile[1]), np.float32)
    padded[:rows, :columns] = values ** 2
    weight = padded.reshape(tall, tile[0], wide, tile[1]).sum((1, 3)).ravel()
    dead = np.argsort(weight, kind="stable")[:int(round(zeros * weight.size))]
    live = np.ones(weight.size, bool)
    live[dead] = False
    return values * np.repeat(np.repeat(live.reshape(tall, wide), tile[0], 0), tile[1], 1)[:rows, :columns]


def window_and_global(length, window, few):
    at = np.arange(length)
    mask = np.abs(at[:, None] - at[None, :]) <= window
    mask[:, :few] = mask[:few, :] = True
    return mask


def vertical_slash(random, length, vertical, slashes, block=64):
    mask = np.zeros((length, length), bool)
    mask[:, random.choice(length, vertical, replace=False)] = True
    offsets = np.concatenate([[0], random.choice(max(length - block, 1), max(slashes - 1, 0), replace=False)])
    for first in range(0, length, block):
        for o in offsets:
            mask[first:first + block, max(0, first - o):max(0, first - o + block)] = True
    return mask & (np.arange(length)[:, None] >= np.arange(length)[None, :])


def blocks(random, length, block, zeros):
    live = random.random((-(-length // block),) * 2) >= zeros
    np.fill_diagonal(live, True)
    return np.repeat(np.repeat(live, block, 0), block, 1)[:length, :length]
