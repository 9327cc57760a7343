"""Which blocks `validate.tensors: sample` compares: first and last of every tensor, and some drawn by a seed.

Stratified by kind of module: every tensor is touched, and of each kind the same share of blocks is drawn. The
draw depends on the tensor's name and shape alone, so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from hfconvert.checks.blocks import mesh_at, mesh_count, wide_meshes
from hfconvert.checks.dtypes import kind_of_module
from hfconvert.tensors.box import Shape
from hfconvert.tensors.lazy import Mesh

# Share of the blocks of a tensor that is drawn beside the first and the last. Norms are small; all of them.
SHARES: Mapping[str, float] = {"embedding": 0.05, "norm": 1.0, "body": 0.05}
SEED = 0


def every_block(_name: str, extent: Shape, unit: int) -> Iterator[Mesh]:
    """All the blocks: what `validate.tensors: full` compares."""
    return wide_meshes(extent, unit)


def sampled_blocks(name: str, extent: Shape, unit: int) -> Iterator[Mesh]:
    """The blocks of a sample, in order. A tensor of at most three blocks is compared whole."""
    count = mesh_count(extent, unit)
    yield from (mesh_at(extent, unit, number) for number in drawn(name, extent, count))


def drawn(name: str, extent: Shape, count: int) -> list[int]:
    """The numbers of the blocks that are drawn of `count`, sorted."""
    if count <= 3:
        return list(range(count))
    inner = range(1, count - 1)
    share = SHARES[kind_of_module(name)]
    most = min(len(inner), max(1, round(share * len(inner))))
    random = Random(f"{SEED} {name} {list(extent)}")  # noqa: S311 - a draw to be repeated, no secret
    return [0, *sorted(random.sample(inner, most)), count - 1]
