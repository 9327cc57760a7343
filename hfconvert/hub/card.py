"""The model card of a repository that takes a conversion of another model.

The text that stands there is kept, and so is whatever its metadata say already: a section of ours, between
two marks, is put at its end or made anew, and `base_model` is added where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hfconvert.hashing import hash_bytes
from hfconvert.hub.front_matter import join_card, put_key, split_card, without_key
from hfconvert.hub.source import Snapshot, fetch
from hfconvert.hub.story import Story, changes_of, changes_values
from hfconvert.hub.uploads import Proven
from hfconvert.planning.totals import Amount
from hfconvert.report.markdown import checks_table, code
from hfconvert.report.sizes import counted, human
from hfconvert.tensors.dtype import BY_CODE

CARD = "README.md"
BEGIN, END = "<!-- hfconvert: begin -->", "<!-- hfconvert: end -->"


def make_card(story: Story, base: Snapshot) -> Proven:
    """The card that goes with a commit on top of `base`: the one that stands there, or the source's."""
    path = story.target.place(CARD)
    if path in base.files:
        text = fetch(base, path).read_text(encoding="utf-8", errors="surrogateescape")
        own = True
    else:
        text, own = _source_card(story), False
    content = card_text(story, text, own=own).encode(errors="surrogateescape")
    return Proven(path, len(content), hash_bytes(content), content)


def card_text(story: Story, text: str, *, own: bool) -> str:
    """A card with the section of ours. What an `own` card says of itself stays; that of the source speaks of
    another model, so its `base_model` gives way, and its results too where values changed."""
    head, body = split_card(text)
    kept = _without_sections(body).rstrip("\n")
    if not own and changes_values(story.plan):
        head = without_key(head, "model-index")
    for key, value in metadata_of(story).items():
        head = put_key(head if own else without_key(head, key), key, value)
    title = "" if kept.strip() else f"# {story.target.repo.rpartition('/')[2]}"
    section = f"{BEGIN}\n{_section(story)}\n{END}\n"
    return join_card(head, f"{kept or title}\n\n{section}")


def _without_sections(body: str) -> str:
    """The text around all that lies between marks, with one empty line where something was. In time linear
    in the text: a card is by whoever wrote it."""
    pieces, at = [], 0
    while (begin := body.find(BEGIN, at)) >= 0 and (end := body.find(END, begin)) >= 0:
        pieces.append(body[at:begin])
        at = end + len(END)
    first, *others = [*pieces, body[at:]]
    around = [first, *(piece.lstrip("\n") for piece in others)]
    return "\n\n".join([*(piece.rstrip("\n") for piece in around[:-1]), around[-1]])


def metadata_of(story: Story) -> Mapping[str, str | Sequence[str]]:
    """What the card says of the model's parents.

    Source of the keys: https://huggingface.co/docs/hub/model-cards. A form of the same weights in another
    format or dtype is called `quantized` there; what an adapter was merged into is a `merge` where both
    parents are on the Hub, else a `finetune`.
    """
    if story.is_adapter:
        relation = {"base_model": story.base, "base_model_relation": "adapter"}
        return relation if story.base else {}
    if story.source is None:
        return {}
    if not story.plan.merges.adapters:
        return {"base_model": story.source.repo, "base_model_relation": "quantized"}
    if story.linked:
        parents = [story.source.repo, story.linked]
        return {"base_model": parents, "base_model_relation": "merge"}
    return {"base_model": story.source.repo, "base_model_relation": "finetune"}


def _source_card(story: Story) -> str:
    """The card of the source: it was copied with the side files."""
    found = [file.path for file in story.plan.copies if file.name == CARD]
    if not found:
        return ""
    return Path(found[0]).read_text(encoding="utf-8", errors="surrogateescape")


def _section(story: Story) -> str:
    return "\n\n".join(_parts(story))


def _parts(story: Story) -> Iterator[str]:
    report = story.report
    changes = ", ".join(changes_of(story.plan)) or "the same names, dtypes and values"
    yield "## How these weights were made"
    yield f"From {story.source_label} by hfconvert: {changes}."
    if story.is_adapter and story.linked:
        yield f"Merged into its base: [{story.linked}]({_page(story)})."
    if story.adapters:
        where = f", published in [{story.linked}]({_page(story)})" if story.linked else ""
        yield f"Merged: {', '.join(code(one) for one in story.adapters)}{where}."
    yield _formula(story)
    yield _sizes(story)
    yield f"### Proof\n\n{checks_table(report.checks)}"
    used = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    yield f"Versions: {used}. Digest: `{report.digest}`."


def _page(story: Story) -> str:
    return f"{story.target.client.site}/{story.linked}"


def _formula(story: Story) -> str:
    """What was computed, per tensor."""
    plan = story.plan
    dtype = code(plan.main_dtype)
    if plan.merges.adapters:
        return (
            "Each tensor that an adapter targets is `W' = round(W + sum(weight * scale * (B @ A)))`, "
            f"computed in float32 and rounded once to {dtype}; `scale` is alpha / r, or alpha / sqrt(r) "
            "where the adapter is rank-stabilised. All others are as in the source."
        )
    if changes_values(plan):
        return (
            f"Each tensor is `W' = round(W)`, to the nearest value of its dtype; most are {dtype}."
        )
    return "Each tensor is `W' = W`, bit for bit."


def _sizes(story: Story) -> str:
    totals = story.plan.totals
    rows = [f"| before | {line} |" for line in _amounts(totals.source)]
    rows += [f"| after | {line} |" for line in _amounts(totals.result)]
    return "\n".join(["| | parameters x bytes |", "|---|---|", *rows])


def _amounts(amounts: Mapping[str, Amount]) -> Iterator[str]:
    for name, amount in amounts.items():
        width = f" x {BY_CODE[name].bits / 8:g} bytes" if name in BY_CODE else ""
        tensors = counted(amount.tensors, "tensor")
        yield f"{amount.parameters:,} {name}{width} = {human(amount.nbytes)} ({tensors})"
