"""The files beside the weights of a result: the source's own, and what `source.assets_from` has to add.

File by file the source wins: a folder of assets gives only what the source lacks, and both is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hfconvert.errors import Problem, UserError, recipe_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.hashing import hash_file
from hfconvert.keymap.fold import listed
from hfconvert.readers.config import CONFIG
from hfconvert.readers.custom_code import code_beside, code_findings, references
from hfconvert.readers.side_files import SideFiles, side_files
from hfconvert.readers.templates import template_findings
from hfconvert.tensors.source import LocalFile

_CARD = "README.md"  # speaks of the model that it lies beside, not of this one
_MODEL_STEMS = ("model", "pytorch_model")
_TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.tiktoken", "tekken.json", "merges.txt")
_TOKENS = re.compile(
    r"(^|\.)(embed_tokens|embed_in|word_embeddings?|tok_embeddings|wte|shared)\.weight$"
)


@dataclass(frozen=True, slots=True)
class Assets:
    """Files to copy, no two of one name, and what is to be said of them."""

    copied: tuple[LocalFile, ...]
    findings: tuple[Finding, ...]

    @property
    def config(self) -> LocalFile | None:
        """The configuration of the model."""
        return next((file for file in self.copied if file.name == CONFIG), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFolder:
    """`source.assets_from`, and its position in the recipe."""

    path: Path
    where: str


def gather(
    root: Path,
    weights: Iterable[str],
    *,
    alone: bool,
    other: AssetFolder | None = None,
    recipe: Path | None = None,
) -> Assets:
    """The side files for a source in `root`, filled up from another folder.

    `alone` as for `side_files`. `recipe` is the file of the recipe: where it lies in the source it is no
    part of the model. UserError (exit 2) where the other folder is none.
    """
    own = side_files(root, weights, alone=alone)
    copied = {file.name: file for file in own.copied if not _is(file.path, recipe)}
    if alone:
        code = code_beside(root, references(copied.values()))
        copied |= {file.name: file for file in code}
    findings = [*_unusable(own), *_left_out(own.left_out)]
    if other is not None:
        given = _given(other)
        findings += _added(given, copied, other)
        copied = {file.name: file for file in given if not _is(file.path, recipe)} | copied
    findings += code_findings(references(copied.values()), copied)
    findings += template_findings((file.name, file.path) for file in copied.values())
    return Assets(tuple(copied[name] for name in sorted(copied)), tuple(findings))


def missing_assets(
    copied: Iterable[str],
    *,
    stem: str,
    lightning: bool,
    tensors: Iterable[str],
) -> Iterator[Finding]:
    """A warning where a model folder lacks its configuration or its tokenizer.

    Weights by another name than transformers gives them are no model folder; those of a Lightning
    checkpoint are where their names are those of a language model.
    """
    names = list(copied)
    speaks = any(_TOKENS.search(name) for name in tensors)
    if stem not in _MODEL_STEMS and not (lightning and speaks):
        return
    lacking = []
    if CONFIG not in names:
        lacking.append(CONFIG)
    if speaks and not any(fnmatchcase(name, one) for name in names for one in _TOKENIZERS):
        lacking.append("tokenizer")
    if lacking:
        yield warning(
            "files",
            "",
            f"the source has no {' and no '.join(lacking)}: libraries need more than the weights",
            "name a folder that has them in source.assets_from",
        )


def _given(other: AssetFolder) -> list[LocalFile]:
    if not os.path.isdir(other.path):  # noqa: PTH112 - that of Path raises where it may not look
        raise UserError(_no_folder(other))
    sides = side_files(other.path, (), alone=False)
    return [file for file in sides.copied if file.name != _CARD]


def _added(
    given: Sequence[LocalFile], own: Mapping[str, LocalFile], other: AssetFolder
) -> Iterator[Finding]:
    """What the folder adds, and what it has in another form than the source."""
    added = [file.name for file in given if file.name not in own]
    if added:
        message = f"{len(added)} files are taken from {other.path}: {listed(added)}"
        yield info("files", "source.assets_from", message)
    else:
        message = f"the source lacks nothing that {other.path} has"
        yield warning("files", "source.assets_from", message, "leave it out of the recipe")
    differing = [file.name for file in given if file.name in own and _differ(file, own[file.name])]
    if differing:
        message = f"{listed(differing)} are the source's own; {other.path} has others"
        hint = "remove them from the source to take the others"
        yield warning("files", "source.assets_from", message, hint)


def _differ(one: LocalFile, other: LocalFile) -> bool:
    return one.size != other.size or hash_file(one.path) != hash_file(other.path)


def _unusable(sides: SideFiles) -> Iterator[Finding]:
    if sides.unusable:
        message = f"{len(sides.unusable)} files cannot be copied: {listed(sides.unusable)}"
        hint = "links lead nowhere, or names are no UTF-8; a download may have been interrupted"
        yield warning("files", "", message, hint)


def _left_out(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        message = f"{len(names)} files of the source are not copied: {listed(names)}"
        yield info("files", "", message, "weights and what only training needs stay behind")


def _is(path: Path, recipe: Path | None) -> bool:
    return recipe is not None and recipe.exists() and path.samefile(recipe)


def _no_folder(other: AssetFolder) -> Problem:
    return recipe_problem(
        f"{other.path} is no folder",
        why="the path is misspelt, or relative to another folder than the recipe's",
        do="name the folder that holds config.json and the tokenizer",
        subject=other.where,
    )
