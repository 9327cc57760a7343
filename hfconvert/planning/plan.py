"""The plan: every output file with the place of every tensor, fixed before the first byte is copied.

It is a frozen value: what `hfconvert plan` prints is what `hfconvert run` executes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfconvert.dtypes.rules import cast
from hfconvert.errors import Problem, raise_any
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.apply import apply
from hfconvert.keymap.coverage import check_coverage
from hfconvert.keymap.families.resolve import Values, canonical, family_config
from hfconvert.lora.merges import Merges
from hfconvert.machine import collection_paused
from hfconvert.planning.configure import Rewritten, configure
from hfconvert.planning.decide import Tie, decide, lost_ties
from hfconvert.planning.digest import Identity, digest_of
from hfconvert.planning.merging import Source, begin, merge, with_assets
from hfconvert.planning.reference import match_reference
from hfconvert.planning.shards import (
    BUFFERS,
    WORKERS,
    Shard,
    TextFile,
    block_of,
    output_stem,
    scratch_of,
    shard_files,
)
from hfconvert.planning.totals import Totals, count
from hfconvert.planning.written_config import written_config
from hfconvert.readers.assets import AssetFolder, Assets, gather, missing_assets
from hfconvert.readers.config import read_config
from hfconvert.readers.contents import PickleFacts
from hfconvert.readers.load import Found, Wanted, load
from hfconvert.readers.origin import Origin
from hfconvert.readers.torch_checksums import covering
from hfconvert.readers.torch_found import Checksum
from hfconvert.recipe import Recipe
from hfconvert.recipe.filling import filled
from hfconvert.recipe.not_built import not_built
from hfconvert.tensors.box import full
from hfconvert.tensors.checkpoint import Checkpoint, Dropped
from hfconvert.tensors.source import LocalFile, SourceFile
from hfconvert.tensors.tally import Tally
from hfconvert.tensors.unreadable import Unreadable

# What the process itself holds: interpreter, numpy, models of the recipe, headers of usual size.
PROCESS_BYTES = 56 << 20


_NO_DIGEST = info(
    "digest",
    "",
    "not computed: validate.tensors is off, and hashing a large source takes as long as copying it",
    "with validate.tensors: full the digest is computed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a run will read, make, copy and leave out."""

    canonical: Mapping[str, Any]
    path: str
    origin: Origin | None  # where the files at `path` came from
    format: str
    sources: tuple[SourceFile, ...]
    pickles: tuple[tuple[str, PickleFacts], ...]
    shards: tuple[Shard, ...]
    texts: tuple[TextFile, ...]
    copies: tuple[LocalFile, ...]
    rewritten: tuple[Rewritten, ...]
    dropped: tuple[Dropped, ...]
    ties: tuple[Tie, ...]
    findings: tuple[Finding, ...]
    before: Mapping[str, str]  # dtype of every tensor before casts
    tally: Tally
    totals: Totals
    merges: Merges
    checksums: tuple[Checksum, ...]  # of storages that are read
    digest: str | None = None

    @property
    def label(self) -> str:
        """The source as people call it: a path, or a repository at a commit."""
        return str(self.origin or self.path)

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Every file that is read or copied."""
        adapters = (file for adapter in self.merges.adapters for file in adapter.files)
        return (*self.sources, *adapters, *self.copies, *(one.source for one in self.rewritten))

    @property
    def output_bytes(self) -> int:
        """Bytes of all the files that will be written, the record of the run excepted."""
        shards = sum(shard.size for shard in self.shards)
        texts = [*(one.content for one in self.texts), *(one.content for one in self.rewritten)]
        return shards + sum(map(len, texts)) + sum(copy.size for copy in self.copies)

    @property
    def peak_memory_bytes(self) -> int:
        """What the run holds at most: the process, and for each worker its blocks and the largest scratch."""
        held = (BUFFERS * block_of(shard) + scratch_of(shard) for shard in self.shards)
        return PROCESS_BYTES + WORKERS * max(held, default=0)

    @property
    def main_dtype(self) -> str:
        """torch's name of the element type that most bytes have, for the name of the output."""
        nbytes: Counter[str] = Counter()
        for shard in self.shards:
            for placed in shard.tensors:
                spec = placed.entry.tensor.spec
                nbytes[spec.dtype.torch or spec.dtype.code] += spec.nbytes
        return nbytes.most_common(1)[0][0] if nbytes else "empty"

    @property
    def key(self) -> str:
        """Names the work folder of this plan: as the digest, with files by path, size and time."""
        stats = [[file.name, str(file.path), file.size, file.mtime_ns] for file in self.files]
        return digest_of(self.canonical, self.shards, stats)

    def identified(self, identities: tuple[Identity, ...]) -> Plan:
        """The plan with its digest where the content of every file is known, else with a finding."""
        if len(identities) < len(self.files):
            return replace(self, findings=(*self.findings, _NO_DIGEST))
        files = [[file.name, one.sha256] for file, one in zip(self.files, identities, strict=True)]
        return replace(self, digest=digest_of(self.canonical, self.shards, files))


@collection_paused()
def make_plan(recipe: Recipe, origin: Origin | None = None) -> Plan:
    """Read headers and decide everything. UserError with all problems; nothing is written.

    `origin` says that `source.path` stands for a repository, some of whose files may be read from the Hub.
    """
    raise_any(not_built(recipe))
    path = _source_path(recipe)
    found = load(path, _wanted(recipe, origin))
    assets = _assets(recipe, found, alone=path.is_file())
    config = read_config(assets.config.path.parent) if assets.config else None
    recipe = filled(recipe, config, found.args)
    values = Values(config or {}, found.args)
    known = {} if config else family_config(recipe.key_map or (), values, recipe.position)
    config = config or known or None
    begun = begin(recipe, found)
    applied = apply(begun.checkpoint, recipe.key_map or (), recipe.position, values)
    check_coverage(found.checkpoint, applied.checkpoint)
    decided = decide(applied, config)
    raise_any([*_unreadable(decided.checkpoint), *lost_ties(applied.checkpoint, config)])
    tally = Tally()
    base = Source(path if path.is_dir() else None, origin.repo if origin else None)
    merged = merge(recipe, decided, config, tally, base)
    casts = cast(merged.checkpoint, recipe.dtype, recipe.position, tally)
    before = {name: one.tensor.spec.dtype.code for name, one in merged.checkpoint.items()}
    configured = configure(
        assets.config,
        config,
        casts.checkpoint,
        before,
        tied=decided.tied,
        merged=merged.merges.config,
    )
    ties = tuple(tie for tie in decided.ties if tie.dropped not in merged.merges.untied)
    written, said = written_config(known, casts.checkpoint)
    matched = match_reference(
        recipe.validation.reference,
        casts.checkpoint,
        ties,
        recipe.position("validate", "reference"),
    )
    shards, texts, oversize = shard_files(
        casts.checkpoint,
        begun.stem or _stem(recipe, found, config),
        recipe.output.max_shard_size,
        {**found.metadata, "format": "pt"},
    )
    findings = (
        *(origin.findings if origin else ()),
        *found.findings,
        *begun.findings,
        *applied.findings,
        *decided.findings,
        *merged.findings,
        *casts.findings,
        *oversize,
        *said,
        *((matched,) if matched else ()),
        *assets.findings,
        *(configured.findings if configured else ()),
        *_missing(assets, found),
        *_kept_whole(recipe),
    )
    return Plan(
        canonical=_canonical(recipe, values),
        path=str(path),
        origin=origin,
        format=found.format,
        sources=tuple(file.source for file in found.files),
        pickles=(*_pickles(found), *(one for a in merged.merges.adapters for one in a.pickles)),
        shards=shards,
        texts=(*texts, *begun.texts, *written),
        copies=tuple(
            file
            for file in with_assets(assets.copied, merged.merges)
            if not configured or file != configured.source
        ),
        rewritten=(configured,) if configured else (),
        dropped=merged.checkpoint.dropped,
        ties=ties,
        findings=findings,
        before=before,
        tally=tally,
        totals=count(
            found.checkpoint,
            decided.checkpoint,
            casts.checkpoint,
            dropped=len(merged.checkpoint.dropped),
            tied=len(ties),
        ),
        checksums=tuple(_checksums(found, casts.checkpoint)),
        merges=merged.merges,
    )


def _checksums(found: Found, written: Checkpoint) -> Iterator[Checksum]:
    recorded = (one for file in found.files for one in file.contents.checksums)
    tensors = (entry.tensor for entry in written.values())
    return covering(recorded, (part for one in tensors for part in one.needs(full(one.extent))))


def _source_path(recipe: Recipe) -> Path:
    path = recipe.source.path or Path()
    return path / recipe.source.subfolder if recipe.source.subfolder else path


def _wanted(recipe: Recipe, origin: Origin | None) -> Wanted:
    source = recipe.source
    return Wanted(
        remote=origin.remote if origin else {},
        files=source.files,
        format=source.format,
        ranks=source.ranks,
        weights=source.weights,
        keep_indexed=source.on_duplicate == "keep-indexed",
        refuse_dangerous=source.refuse_dangerous,
        where_files=recipe.position("source", "files"),
        where_ranks=recipe.position("source", "ranks"),
        where_path=recipe.position("source", "path"),
        where_weights=recipe.position("source", "weights"),
    )


def _canonical(recipe: Recipe, values: Values) -> dict[str, Any]:
    """The recipe as far as it decides what is written: no places, nothing about publishing or reports."""
    document = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    document.pop("publish", None)
    if recipe.key_map:
        document["key_map"] = canonical(recipe.key_map, values, recipe.position)
    for part, keys in {
        "source": ("path", "repo", "revision", "assets_from"),
        "output": ("path", "disk"),
    }.items():
        for key in keys:
            document.get(part, {}).pop(key, None)
    for adapter in document.get("lora", {}).get("adapters", ()):
        adapter.pop("adapter", None)
        adapter.pop("revision", None)
    return {key: value for key, value in document.items() if value != {}}


def _unreadable(checkpoint: Checkpoint) -> Iterator[Problem]:
    for entry in checkpoint.values():
        if isinstance(entry.tensor, Unreadable):
            yield entry.tensor.problem


def _assets(recipe: Recipe, found: Found, *, alone: bool) -> Assets:
    given = recipe.source.assets_from
    where = recipe.position("source", "assets_from")
    other = AssetFolder(path=given.local, where=where) if given and given.local else None
    weights = [file.source.name for file in found.files]
    file = Path(recipe.document.name)
    return gather(found.root, weights, alone=alone, other=other, recipe=file)


def _missing(assets: Assets, found: Found) -> Iterator[Finding]:
    return missing_assets(
        [file.name for file in assets.copied],
        stem=found.layout.stem,
        lightning=found.format == "lightning",
        tensors=found.checkpoint,
    )


def _kept_whole(recipe: Recipe) -> Iterator[Finding]:
    """A warning where the recipe wants a bounded disk and nothing takes the shards from it."""
    if recipe.output.disk == "bounded" and recipe.publish is None:
        yield warning(
            "output",
            recipe.position("output", "disk"),
            "nothing is published, so every shard stays on this disk",
            "a bounded disk needs publish, and no --no-publish",
        )


def _stem(recipe: Recipe, found: Found, config: Mapping[str, Any] | None) -> str:
    if recipe.output.filename != "auto":
        return recipe.output.filename.removesuffix(".safetensors")
    return output_stem(found.layout.stem, transformers="model_type" in (config or {}))


def _pickles(found: Found) -> tuple[tuple[str, PickleFacts], ...]:
    return tuple(
        (file.source.name, file.contents.pickle) for file in found.files if file.contents.pickle
    )
