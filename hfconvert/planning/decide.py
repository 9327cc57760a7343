"""What depends on values is decided here, once, before the plan: which tensors are one and the same.

Two names over the same bytes in the same view are a tie; so are an input embedding and a head of equal
values where the configuration says that they are tied (pickles often break the aliasing). One name of a tie
is written. Disjoint slices of one storage are independent tensors; partial overlaps are copied, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from hfconvert.errors import Problem, raise_any, source_problem, values_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.applied import Applied, ClaimedTie, is_untied
from hfconvert.keymap.fold import listed
from hfconvert.readers.config import tied_embeddings
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.compare import same_values
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.overlap import overlapping

_SHARED = re.compile(r"(^|\.)shared(\.|$)")
_EMBEDDING = re.compile(r"(^|\.)(wte|tok_embeddings?|[a-z_]*embed[a-z_]*)(\.|$)", re.IGNORECASE)
_HEAD = re.compile(r"(^|\.)(lm_head|head|output_layer|output|predictions|decoder|embed_out)(\.|$)")
_INPUT = re.compile(r"(embed_tokens|embed_in|word_embeddings?|tok_embeddings?|wte|shared)\.weight$")
_OUTPUT = re.compile(
    r"(lm_head|embed_out|output_layer|predictions\.decoder|lm_head\.decoder|proj_out|vocab_projector)"
    r"\.weight$"
)
_SAID = 5  # overlaps that are named
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")


@dataclass(frozen=True, slots=True)
class Tie:
    """Two names of one tensor: the one that is written, and the one that a loader restores from it.

    `tensor` is what the source holds under the name that is dropped.
    """

    kept: str
    dropped: str
    tensor: LazyTensor | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Decided:
    """A checkpoint whose tensors are all independent, the ties that were found, and what was decided.

    `tied` is what a step of the recipe made of input embedding and head; None where none touched them.
    """

    checkpoint: Checkpoint
    ties: tuple[Tie, ...]
    findings: tuple[Finding, ...]
    tied: bool | None = None


def decide(applied: Applied, config: Mapping[str, Any] | None) -> Decided:
    """Find ties and overlaps; keep one name of each tie. Reads values only of pairs that may be equal.

    UserError (exit 1) where a `tie` step claims a tie of tensors with different values, (exit 3) where
    weights are placeholders without data.
    """
    checkpoint = applied.checkpoint
    raise_any([*_false_claims(applied.ties), *_placeholders(checkpoint)])
    said_untied = tied_embeddings(config) is False
    ties, findings = [], []
    for tie in ties_by_storage(checkpoint):
        if said_untied and not (_is_embedding(tie.kept) and _is_embedding(tie.dropped)):
            findings.append(_written_twice(tie))
        else:
            ties.append(tie)
            message = f"is {tie.kept}: one storage, written once"
            findings.append(info("ties", tie.dropped, message))
    if tied_embeddings(config):
        dropped = {tie.dropped for tie in ties}
        equal, said = _by_value(
            {
                name: entry
                for name, entry in checkpoint.items()
                if name not in dropped and not is_untied(entry)
            }
        )
        ties, findings = [*ties, *equal], [*findings, *said]
    findings += _overlaps(checkpoint)
    gone = {tie.dropped for tie in ties}
    kept = {name: entry for name, entry in checkpoint.items() if name not in gone}
    written = {tie.dropped: tie.kept for tie in ties}
    claimed = [
        Tie(written.get(name, name), claim.dropped, claim.dropped_entry.tensor)
        for claim in applied.ties
        for name in [_present_name(claim, checkpoint)]
    ]
    found = [Tie(tie.kept, tie.dropped, checkpoint[tie.dropped].tensor) for tie in ties]
    return Decided(
        checkpoint.with_entries(kept),
        (*claimed, *found),
        tuple(findings),
        _made_by_steps(claimed, kept),
    )


def ties_by_storage(checkpoint: Checkpoint) -> list[Tie]:
    """Names over the same bytes in the same view; `tie` steps and values are not looked at."""
    groups: dict[object, list[str]] = {}
    for name, entry in checkpoint.items():
        tensor = entry.tensor
        if isinstance(tensor, Leaf) and tensor.spec.nbytes and not is_untied(entry):
            key = (tensor.source.name, tensor.start, tensor.strides, tensor.spec)
            groups.setdefault(key, []).append(name)
    ties = []
    for names in groups.values():
        kept = kept_name(names)
        ties += [Tie(kept, name) for name in names if name != kept]
    return ties


def lost_ties(checkpoint: Checkpoint, config: Mapping[str, Any] | None) -> Iterator[Problem]:
    """A problem (exit 3) where a tied language model has neither of the tensors that are tied.

    A loader would say nothing, and make them up.
    """
    classes = (config or {}).get("architectures") or ()
    if not tied_embeddings(config) or not str(next(iter(classes), "")).endswith(_LANGUAGE_MODELS):
        return
    names = {one.name for one in checkpoint.dropped}
    names |= {source for entry in checkpoint.values() for source in entry.sources}
    if not any(_is_embedding(name) or _HEAD.search(name) for name in names):
        yield source_problem(
            "the configuration says that input embedding and head are tied, but neither is there",
            why="both names were removed from the file, or a shard is not named in the index",
            do="fetch a complete checkpoint; a loader would fill them with random numbers",
            subject="config.json",
            check="ties",
        )


def kept_name(names: Iterable[str]) -> str:
    """Of several names of one tensor, the one to write: the input embedding before the head.

    Among equals the shorter path, then the earlier name; this is what transformers' own lists of tied
    weights come to for its text models (`lm_head.bias` over `lm_head.decoder.bias`).
    """
    candidates = list(names)
    return min(candidates, key=lambda name: (*_preference(name), candidates.index(name)))


def ties_head(tie: Tie) -> bool:
    """Whether it is the tie of an input embedding and a head, which a tied configuration restores."""
    return _is_embedding(tie.kept) and not _is_embedding(tie.dropped)


def _is_embedding(name: str) -> bool:
    return _preference(name)[0] <= 1


def _preference(name: str) -> tuple[int, int]:
    if _SHARED.search(name):
        role = 0
    elif _HEAD.search(name) and not _INPUT.search(name):
        role = 3
    else:
        role = 1 if _EMBEDDING.search(name) else 2
    return role, name.count(".")


def _present_name(claim: ClaimedTie, checkpoint: Checkpoint) -> str:
    """What the kept name of a `tie` step is called after the steps that follow it."""
    same = (name for name, one in checkpoint.items() if one.sources == claim.kept_entry.sources)
    return claim.kept if claim.kept in checkpoint else next(same, claim.kept)


def _made_by_steps(claimed: Iterable[Tie], kept: Mapping[str, Entry]) -> bool | None:
    """What `tie` and `untie` steps made of input embedding and head: one tensor, two, or untouched."""
    if any(_is_embedding(tie.kept) != _is_embedding(tie.dropped) for tie in claimed):
        return True
    marked = [name for name, entry in kept.items() if is_untied(entry)]
    both = any(map(_OUTPUT.search, kept)) and any(map(_INPUT.search, kept))
    if both and any(_INPUT.search(name) or _OUTPUT.search(name) for name in marked):
        return False
    return None


def _false_claims(claims: Iterable[ClaimedTie]) -> Iterator[Problem]:
    for claim in claims:
        if not same_values(claim.kept_entry.tensor, claim.dropped_entry.tensor):
            yield values_problem(
                f"{claim.dropped} and {claim.kept} hold different values: they are no tie",
                why="one of them was trained apart, or the pair is the wrong one",
                do="remove the pair from the `tie` step",
                subject=claim.subject,
                check="ties",
            )


def _placeholders(checkpoint: Checkpoint) -> Iterator[Problem]:
    """Weights of the shape [0]: what a process writes of parameters that lie with the others."""
    empty = [
        name
        for name, entry in checkpoint.items()
        if name.endswith("weight") and entry.tensor.spec.shape == (0,)
    ]
    if empty:
        yield source_problem(
            f"weights have the size 0: {listed(empty)}",
            why="they are placeholders, as ZeRO stage 3 leaves them where nobody gathered the parameters",
            do="write the checkpoint with all of its parameters gathered, or drop these names",
            subject=empty[0],
            check="tensors",
        )


def _written_twice(tie: Tie) -> Finding:
    return warning(
        "ties",
        tie.dropped,
        f"lies over the same storage as {tie.kept}, but the configuration says that they are not "
        "tied; both are written",
        "if they are tied, set tie_word_embeddings to true in the source's config.json",
    )


def _by_value(entries: Mapping[str, Entry]) -> tuple[list[Tie], list[Finding]]:
    ties, findings = [], []
    inputs = [name for name in entries if _INPUT.search(name)]
    for head in (name for name in entries if _OUTPUT.search(name)):
        alike = [name for name in inputs if entries[name].tensor.spec == entries[head].tensor.spec]
        equal = [name for name in alike if same_values(entries[name].tensor, entries[head].tensor)]
        if equal:
            ties.append(Tie(equal[0], head))
            message = f"is {equal[0]}: equal values under a tied configuration, written once"
            findings.append(info("ties", head, message))
        elif inputs:
            findings.append(
                warning(
                    "ties",
                    head,
                    f"differs from {inputs[0]}, though the configuration says that they are tied",
                    "loaders that obey the configuration ignore this tensor; "
                    "set tie_word_embeddings to false if it was trained apart",
                )
            )
    return ties, findings


def _overlaps(checkpoint: Checkpoint) -> list[Finding]:
    """Views that share some bytes without being the same view."""
    leaves = {
        name: entry.tensor for name, entry in checkpoint.items() if isinstance(entry.tensor, Leaf)
    }
    sharing = [f"{name} and {other}" for name, other in islice(overlapping(leaves), _SAID + 1)]
    if not sharing:
        return []
    shown = "; ".join(sharing[:_SAID]) + ("; and more" if len(sharing) > _SAID else "")
    message = f"these views lie over common bytes without being the same; each is copied: {shown}"
    return [info("ties", "", message, "the result can be larger than the source")]
