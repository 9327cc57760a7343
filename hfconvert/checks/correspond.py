"""Which tensor of a source each tensor of somebody's conversion is: equal names, or a map that is found.

Maps that are found by themselves: what wrappers put into names, what old TensorFlow ports called weights, and
one prefix that all the names of one side carry. Everything else is a difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hfconvert.findings import Finding, info
from hfconvert.keymap.prefixes import WRAPPERS, Prefixes

Rename = Callable[[str], str]

_WRAPPERS = Prefixes.of(WRAPPERS)
# Names of before torch's own: source: the "legacy" entry of transformers' conversion_mapping.py.
_LEGACY = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
    (re.compile(r"\.weight_g$"), ".parametrizations.weight.original0"),
    (re.compile(r"\.weight_v$"), ".parametrizations.weight.original1"),
)
_TRIED = 4  # prefixes, of those that most names speak for


@dataclass(frozen=True, slots=True)
class Correspondence:
    """Names of the candidate with the source's name of each, what is left on either side, what was found."""

    pairs: Mapping[str, str]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    findings: tuple[Finding, ...]


def correspond(source: Iterable[str], candidate: Iterable[str]) -> Correspondence:
    """Pair the names of both sides by the simplest map that pairs most of them."""
    ours, theirs = list(source), list(candidate)
    known = _unwrapped(ours), _unwrapped(theirs)
    rename, said = _best_prefix(known[0], known[1])
    by_name = {rename(plain): name for plain, name in known[0].items()}
    pairs = {name: by_name[plain] for plain, name in known[1].items() if plain in by_name}
    paired = set(pairs.values())
    findings = [*_wrapper_findings(known[0], known[1], pairs), *said]
    return Correspondence(
        pairs,
        tuple(name for name in ours if name not in paired),
        tuple(name for name in theirs if name not in pairs),
        tuple(findings),
    )


def likely_prefix(found: Iterable[str], wanted: Iterable[str]) -> tuple[str, str, int] | None:
    """`add` or `remove`, a prefix, and how many of the found names become wanted ones by it.

    None where no prefix mends more names than are right already.
    """
    ours, theirs = set(found), set(wanted)
    best = len(ours & theirs)
    result: tuple[str, str, int] | None = None
    for how, prefix in _voted(ours, theirs):
        rename = _by_prefix(how, prefix)
        count = len({rename(name) for name in ours} & theirs)
        if count > best:
            best, result = count, (how, prefix, count)
    return result


def _unwrapped(names: Iterable[str]) -> dict[str, str]:
    """Names without wrappers and under present names of weights, to the names themselves.

    Where two names become one, both stay as they are.
    """
    plain = {name: _plain(name) for name in names}
    counts = Counter(plain.values())
    return {short if counts[short] == 1 else name: name for name, short in plain.items()}


def _plain(name: str) -> str:
    name = _WRAPPERS.take_off(name).name
    for pattern, present in _LEGACY:
        name = pattern.sub(present, name)
    return name


def _best_prefix(
    ours: Mapping[str, str], theirs: Mapping[str, str]
) -> tuple[Rename, list[Finding]]:
    found = likely_prefix(ours, theirs)
    if found is None:
        return (lambda name: name), []
    how, prefix, count = found
    verb = "without" if how == "remove" else "with"
    message = f"{count} names stand in the candidate {verb} the prefix `{prefix}`"
    return _by_prefix(how, prefix), [info("names", prefix, message)]


def _by_prefix(how: str, prefix: str) -> Rename:
    if how == "remove":
        return lambda name: name.removeprefix(prefix)
    return lambda name: prefix + name


def _voted(ours: set[str], theirs: set[str]) -> Iterator[tuple[str, str]]:
    """Prefixes that would make names of one side names of the other, those with most votes first."""
    votes: Counter[tuple[str, str]] = Counter()
    for how, long, short in (("remove", ours, theirs), ("add", theirs, ours)):
        for name in long:
            if name not in short:
                votes.update((how, prefix) for prefix in _prefixes(name, short))
    yield from (choice for choice, _ in votes.most_common(_TRIED))


def _prefixes(name: str, known: set[str]) -> Iterator[str]:
    """What stands in the name before one of the known names."""
    at = name.find(".")
    while at >= 0:
        if name[at + 1 :] in known:
            yield name[: at + 1]
        at = name.find(".", at + 1)


def _wrapper_findings(
    ours: Mapping[str, str], theirs: Mapping[str, str], pairs: Mapping[str, str]
) -> Iterator[Finding]:
    for side, names, used in (
        ("source", ours, set(pairs.values())),
        ("candidate", theirs, set(pairs)),
    ):
        changed = [name for plain, name in names.items() if plain != name and name in used]
        if changed:
            message = (
                f"{len(changed)} names of the {side} carry a wrapper or an old name of a weight"
            )
            yield info("names", changed[0], f"{message}: `{changed[0]}` is `{_plain(changed[0])}`")
