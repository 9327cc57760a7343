"""The words of a pull request: what it brings and why, the proof, what was not done, how to refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hfconvert import __version__
from hfconvert.hub.source import Snapshot
from hfconvert.hub.story import Story, changes_of, is_unchanged
from hfconvert.report.markdown import checks_table, code, files_table, pickle_lines, prose
from hfconvert.report.model import Output
from hfconvert.report.sizes import counted

_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def body_of(story: Story, files: Sequence[Output], base: Snapshot, removed: Sequence[str]) -> str:
    """The description, without the mark. `files` are those that it brings, by their paths there; `removed`
    those that go."""
    return "\n\n".join(_parts(story, files, base, removed))


def message_of(story: Story, files: Sequence[Output]) -> str:
    """The same for a commit without a pull request: a few lines of plain text."""
    weights = [one for one in files if one.file.endswith(".safetensors")]
    source = story.source
    lines = [
        f"Source: {source.repo} at {source.commit}" if source else "Source: local files",
        *(f"{one.file} sha256 {one.sha256}" for one in weights[:50]),
        f"Checks: {', '.join(f'{check.name} {check.status}' for check in story.report.checks)}",
        f"Made by hfconvert {__version__}",
    ]
    return "\n".join(lines)


def invitation(story: Story, num: int) -> str:
    """The first comment: how to try the pull request before it is merged."""
    repo, revision = story.target.repo, f"refs/pr/{num}"
    subfolder = f', subfolder="{story.target.folder}"' if story.target.folder else ""
    name = _model_class(story)
    if name is None:
        load = f"```sh\nhf download {repo} --revision {revision}\n```"
    else:
        load = (
            f"```python\nfrom transformers import {name}\n\n"
            f'model = {name}.from_pretrained("{repo}", revision="{revision}"{subfolder})\n```'
        )
    verify = f"```sh\nhfconvert verify {_verify_source(story)} {repo}@{revision}\n```"
    return (
        f"## Try it before you merge\n\n{load}\n\n"
        f"To repeat the proof with your own machine:\n\n{verify}"
    )


def _verify_source(story: Story) -> str:
    source = story.source
    return f"{source.repo}@{source.commit}" if source else "./your-copy-of-the-source"


def _parts(
    story: Story, files: Sequence[Output], base: Snapshot, removed: Sequence[str]
) -> Iterator[str]:
    yield _what(story)
    yield _why(story)
    if story.source is not None and story.source.commit != base.commit:
        yield f"Source: {story.source_label}. It stands on {code(base.commit[:7])}."
    else:
        yield f"Source: {story.source_label}."
    yield f"## Files\n\n{files_table(files)}"
    yield f"## Proof\n\n{_proof(story)}\n\n{checks_table(story.report.checks)}"
    pickles = list(pickle_lines(story.plan.pickles))
    if pickles:
        text = "\n".join(pickles[:20])
        yield f"## Pickles\n\nRead without executing them. What they ask to import:\n\n{text}"
    yield "## What was not done\n\n" + "\n".join(_not_done(story, removed))
    yield (
        "## If you do not want this\n\nClose this pull request: hfconvert will not open another one here, "
        "unless somebody tells it to."
    )
    used = ", ".join(f"{name} {number}" for name, number in story.report.versions.items())
    yield f"Made by hfconvert: {used}."


def _what(story: Story) -> str:
    weights = counted(sum(len(shard.tensors) for shard in story.plan.shards), "tensor")
    if is_unchanged(story.plan):
        text = f"This adds the weights as `safetensors`: {weights}, with the same names, dtypes and values."
    else:
        text = (
            f"This adds weights as `safetensors`: {weights}; {', '.join(changes_of(story.plan))}."
        )
    ties = story.plan.ties
    if ties:
        told = ", ".join(f"{code(tie.dropped)} is {code(tie.kept)}" for tie in ties[:5])
        text += f" Tied tensors are stored once: {told}{' and more' if len(ties) > 5 else ''}."
    return text


def _why(story: Story) -> str:
    if not story.plan.pickles:
        return "`safetensors` files hold no code and load fast."
    opening = story.report.opening
    text = (
        "A pickle can execute code when it is loaded; `safetensors` cannot, and it loads faster, a tensor at "
        "a time if need be."
    )
    if opening is None:
        return text
    before, after = (f"{1000 * seconds:.1f} ms" for seconds in opening)
    return f"{text} To the first tensor it took {after}, and {before} before (read by hfconvert)."


def _proof(story: Story) -> str:
    compared = next((one for one in story.report.checks if one.name == "tensors"), None)
    if compared is None or compared.status != "pass":
        return "Each file was opened again after it was written."
    values = compared.measured.get("values")
    how = f"{values:,} values" if isinstance(values, int) else "the values"
    return (
        f"Each file was opened again after it was written, and {how} were compared with the source by other "
        "code than wrote them. A wrong formula in a step of the recipe would fool that comparison."
    )


def _not_done(story: Story, removed: Sequence[str]) -> Iterator[str]:
    if removed:
        names = ", ".join(code(path) for path in removed)
        yield f"- Nothing was deleted but {names}: loaders would read that in place of the new files."
    else:
        yield "- Nothing was deleted; every file that was there stays."
    for check in story.report.checks:
        if check.status == "skipped":
            detail = f": {prose(check.detail)}" if check.detail else ""
            yield f"- The check `{check.name}` was skipped{detail}."
    if not any(one.name == "logits" and one.status == "pass" for one in story.report.checks):
        yield "- The model was not run."


def _model_class(story: Story) -> str | None:
    """The class that config.json names, where transformers itself has it; None where it names none."""
    if story.is_adapter:
        return None
    config = _config(story)
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else None
    if config.get("auto_map") or not isinstance(name, str) or not _CLASS.match(name):
        return None
    return name


def _config(story: Story) -> dict[str, Any]:
    plan = story.plan
    texts = [one.content for one in plan.rewritten if one.source.name == "config.json"]
    try:
        paths = [copy.path for copy in plan.copies if copy.name == "config.json"]
        document = json.loads(texts[0] if texts else paths[0].read_bytes())
    except (IndexError, OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
