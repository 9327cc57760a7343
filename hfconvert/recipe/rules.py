"""What fields of a recipe demand of each other, as far as the text alone decides it.

The rules look at plain values, not at models, so that they speak up beside the faults of single fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hfconvert.recipe.document import Document
from hfconvert.recipe.faults import Fault, shown
from hfconvert.recipe.positions import KeyPath

Beats = tuple[str, str, str]
Broken = Iterator[tuple[KeyPath, Beats]]


def rule_faults(document: Document, path: KeyPath = ()) -> Iterator[Fault]:
    """What the recipe at a path of a document breaks."""
    recipe = _at(document.value, *path)
    if not isinstance(recipe, Mapping):
        return
    for rule in _RULES:
        for where, beats in rule(recipe):
            at = (*path, *where)
            about_key = not _is_leaf(_at(recipe, *where))
            mark = document.positions.key(at) if about_key else document.positions.value(at)
            yield Fault(mark, *beats)


def _at(value: Any, *path: str | int) -> Any:
    """The value at a path, or None where there is none."""
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, tuple) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _is_leaf(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | tuple)


def _one_source(recipe: Mapping[str, Any]) -> Broken:
    source = recipe.get("source")
    if not isinstance(source, Mapping):
        return
    given = [key for key in ("repo", "path") if source.get(key) is not None]
    if len(given) == 2:
        why = "a source is a repository or a path"
        yield ("source", "path"), ("both `repo` and `path` are given", why, "remove one of them")
    if not given:
        what = "neither `repo` nor `path` is given"
        yield ("source",), (what, "", "add `repo: org/model` or `path: ./folder`")


def _ranks(recipe: Mapping[str, Any]) -> Broken:
    ranks, files = _at(recipe, "source", "ranks"), _at(recipe, "source", "files")
    form = _at(recipe, "source", "format")
    if ranks is not None and files is not None:
        why = "`ranks` names the files already"
        yield ("source", "files"), ("`files` stands beside `ranks`", why, "remove one of them")
    if ranks is not None and form not in (None, "auto", "ranks"):
        why = "`ranks` is for files of one's own, one a rank"
        what = f"{shown(form)} does not go with `ranks`"
        yield ("source", "format"), (what, why, "write format: ranks, or remove `ranks`")
    if form == "ranks" and ranks is None:
        what = "`format: ranks` needs `ranks`"
        yield ("source", "format"), (what, "", 'add ranks: "rank-{r}.pt"')


def _qkv(recipe: Mapping[str, Any]) -> Broken:
    steps = recipe.get("key_map")
    for index, step in enumerate(steps if isinstance(steps, tuple) else ()):
        options = _at(step, "qkv")
        if not isinstance(options, Mapping):
            continue
        path = ("key_map", index, "qkv")
        sides = [options.get(side) for side in ("from", "into")]
        if None not in sides and sum(isinstance(side, tuple) for side in sides) != 1:
            what = "one of `from` and `into` is a name, the other a list of three"
            yield path, (what, "", "write from: x, into: [q, k, v] to split; the reverse to fuse")
        yield from _heads(options, path)


def _heads(options: Mapping[str, Any], path: KeyPath) -> Broken:
    heads, kv_heads = options.get("heads"), options.get("kv_heads")
    at = (*path, "kv_heads")
    if kv_heads is not None and heads is None:
        yield at, ("`kv_heads` is given without `heads`", "", "add `heads`")
    if not isinstance(heads, int) or not isinstance(kv_heads, int):
        return
    if heads > 0 and kv_heads > 0 and heads % kv_heads:
        why = "every key-value head serves the same number of heads"
        what = f"{heads} heads do not divide among {kv_heads} key-value heads"
        yield at, (what, why, "mend one of the two")


def _adapters(recipe: Mapping[str, Any]) -> Broken:
    adapters = _at(recipe, "lora", "adapters")
    for index, item in enumerate(adapters if isinstance(adapters, tuple) else ()):
        adapter, revision = _at(item, "adapter"), _at(item, "revision")
        if isinstance(adapter, str) and "@" in adapter and revision is not None:
            what = "the revision is given twice: behind `@` and as `revision`"
            yield ("lora", "adapters", index, "revision"), (what, "", "remove one of them")


def _publish(recipe: Mapping[str, Any]) -> Broken:
    publish = recipe.get("publish")
    if not isinstance(publish, Mapping):
        return
    if _at(recipe, "validate", "tensors") == "off":
        what = "`tensors: off` never publishes"
        why = "the recipe has `publish`, and what is published is compared with its source first"
        do = "write tensors: full, or remove `publish`"
        yield ("validate", "tensors"), (what, why, do)
    yield from _target(recipe, publish)
    if publish.get("adapter") not in (None, "none") and recipe.get("lora") is None:
        what = "there is no adapter to publish"
        yield ("publish", "adapter"), (what, "the recipe has no `lora`", "remove `adapter`")


def _target(recipe: Mapping[str, Any], publish: Mapping[str, Any]) -> Broken:
    repo, source = publish.get("repo"), _at(recipe, "source", "repo")
    where = ("publish",) if repo is None else ("publish", "repo")
    if repo is None and source is None and _at(recipe, "source", "path") is not None:
        what = "no repository is named"
        yield where, (what, "the source is a path", "add `repo: org/name` under `publish`")
    elif recipe.get("lora") is not None and repo in (None, source):
        why = "a merged model is another model than its source"
        do = "name another repository under `publish.repo`"
        yield where, ("a merge is not published to its source", why, do)


_RULES: tuple[Callable[[Mapping[str, Any]], Broken], ...] = (
    _one_source,
    _ranks,
    _qkv,
    _adapters,
    _publish,
)
