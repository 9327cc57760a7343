"""Files of one's own, one a rank: `source.ranks: "rank-{r}.pt"`.

What rank 1 holds of the tensor `w` is called `w@1`; a `join` step of the key map puts the slices together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hfconvert.errors import UserError, recipe_problem, source_problem
from hfconvert.readers.layout import Layout
from hfconvert.tensors.lazy import LazyTensor

FORMAT = "ranks"
MOST = 4096  # ranks; more files than this are something else


def rank_layout(root: Path, pattern: str, where: str) -> Layout:
    """The files that a pattern with `{r}` names, in the order of their ranks, 0 to the highest.

    UserError: exit 2 where there is none, exit 3 where one is missing or two have the same rank.
    """
    before, _, after = pattern.partition("{r}")
    numbered = re.compile(re.escape(before) + r"([0-9]{1,9})" + re.escape(after))
    found: dict[int, list[str]] = {}
    for path in sorted(root.glob(_globbed(before) + "*" + _globbed(after))):
        name = path.relative_to(root).as_posix()
        match = numbered.fullmatch(name)
        if match and path.is_file():
            found.setdefault(int(match[1]), []).append(name)
    _check(root, pattern, found, where)
    return Layout("model", "torch", tuple(found[rank][0] for rank in sorted(found)))


def of_rank(tensors: Mapping[str, LazyTensor], rank: int) -> dict[str, LazyTensor]:
    """The tensors of a rank's file, under names that say so."""
    return {f"{name}@{rank}": tensor for name, tensor in tensors.items()}


def _globbed(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


def _check(root: Path, pattern: str, found: Mapping[int, list[str]], where: str) -> None:
    if not found:
        raise UserError(
            recipe_problem(
                f"source.ranks: {pattern!r} matches no file of {root}",
                why="the name is misspelt, or the files are in another folder",
                do="write the names as they are, with {r} where the number stands",
                subject=where,
            )
        )
    world = max(found) + 1
    twice = next((names for names in found.values() if len(names) > 1), None)
    if twice or world > MOST:
        raise UserError(
            source_problem(
                f"{' and '.join(twice)} are of one rank" if twice else f"rank {world - 1} is named",
                why="the folder holds files of several runs" if twice else "{r} is no rank here",
                do="put the files of one run into a folder of their own",
                subject=str(root),
            )
        )
    missing = [rank for rank in range(world) if rank not in found]
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise UserError(
            source_problem(
                f"there is no file of rank {shown}, of {world} ranks",
                why="it was not copied, or its rank could not write it",
                do="fetch it: what it holds of every tensor is nowhere else",
                subject=str(root / pattern),
            )
        )
