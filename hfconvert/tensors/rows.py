"""In which order attention layouts hold the rows of their projections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heads:
    """The geometry of an attention layer; `heads` is a multiple of `kv_heads`.

    With a `gate`, every head's query has as many rows again behind it, which gate the attention's output
    (as in transformers' Qwen3-Next).
    """

    heads: int
    kv_heads: int
    head_dim: int
    gate: bool = False

    @property
    def query_rows(self) -> int:
        """Rows of the query projection."""
        return self.heads * self.head_dim * (2 if self.gate else 1)

    @property
    def key_rows(self) -> int:
        """Rows of the key projection, and of the value projection."""
        return self.kv_heads * self.head_dim

    @property
    def rows(self) -> int:
        """Rows of the fused projection."""
        return self.query_rows + 2 * self.key_rows


def interleaved(heads: Heads) -> tuple[Rows, Rows, Rows]:
    """Which fused rows are query, key and value where they lie by key-value group.

    Each group holds its query heads, then their gates if there are any, one key head, one value head
    (Megatron-LM's `linear_qkv`; with one query head a group, GPT-NeoX's and Bloom's).
    """
    share = heads.heads // heads.kv_heads
    kinds = 2 if heads.gate else 1
    groups = np.arange(heads.rows).reshape(heads.kv_heads, kinds * share + 2, heads.head_dim)
    queries = groups[:, :-2].reshape(heads.kv_heads, kinds, share, heads.head_dim)
    by_head = queries.transpose(0, 2, 1, 3)  # a head's gate behind its query
    return by_head.reshape(-1), groups[:, -2].reshape(-1), groups[:, -1].reshape(-1)


def blocked(query_rows: int, key_rows: int) -> tuple[Rows, Rows, Rows]:
    """Which fused rows are query, key and value where all of each lie together, in that order."""
    ends = query_rows, query_rows + key_rows, query_rows + 2 * key_rows
    return np.arange(ends[0]), np.arange(ends[0], ends[1]), np.arange(ends[1], ends[2])


def inverse(rows: Rows) -> Rows:
    """The permutation that puts rows back where `rows` took them from."""
    return np.argsort(rows, kind="stable")


def half_of_interleaved(rows: int, heads: int) -> Rows:
    """For rotary halves (x0 x1 .. y0 y1 ..), which row of interleaved pairs (x0 y0 x1 y1 ..) each is.

    Within every head. transformers and Megatron-LM rotate halves, Meta's llama code pairs.
    """
    pairs = np.arange(rows).reshape(heads, rows // heads // 2, 2)
    return pairs.transpose(0, 2, 1).reshape(-1)
