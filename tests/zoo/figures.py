"""The figure of a proof over all types, and what is not explained in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.zoo.exceptions import Explained
from tests.zoo.runner import Answer


@dataclass(frozen=True, slots=True)
class Figure:
    """Answers, beside the exceptions that are explained."""

    proof: str
    answers: Sequence[Answer]
    explained: Mapping[str, Explained]

    @property
    def built(self) -> list[Answer]:
        """Those of which there was something to prove."""
        return [one for one in self.answers if not one.not_built]

    @property
    def failed(self) -> list[Answer]:
        """Those that did not come through."""
        return [one for one in self.built if one.why]

    @property
    def share(self) -> float:
        """Of those that could be built, how many came through."""
        return 1 - len(self.failed) / max(len(self.built), 1)

    def wrong(self) -> list[str]:
        """What the table of exceptions does not say, or says and is not so."""
        return [*self._unexplained(), *self._outdated()]

    def lines(self) -> Iterator[str]:
        """The figure, every exception with its reason, and what could not be built."""
        built, passed = len(self.built), len(self.built) - len(self.failed)
        yield f"{self.proof}: {passed} of {built} types came through ({self.share:.1%})"
        near = [one.kind for one in self.built if one.near]
        if near:
            yield f"  of them {passed - len(near)} bit for bit; some tensors within the bound: {_all(near)}"
        for one in self.failed:
            about = self.explained.get(one.kind)
            yield f"  {one.kind}: {f'{about.whose}: {about.reason}' if about else 'UNEXPLAINED'}"
            yield f"    {one.why[:300]}"
            if one.alone:
                yield f"    without hfconvert: {one.alone[:200]}"
        left = len(self.answers) - built
        yield f"  built {built} of {len(self.answers)} types; {left} could not be:"
        for reason, kinds in sorted(self._not_built().items(), key=lambda item: -len(item[1])):
            yield f"    {len(kinds)} {reason}: {_all(kinds)}"

    def _not_built(self) -> dict[str, list[str]]:
        reasons: dict[str, list[str]] = {}
        for one in self.answers:
            if one.not_built:
                reasons.setdefault(one.not_built, []).append(one.kind)
        return reasons

    def _unexplained(self) -> Iterator[str]:
        for one in self.failed:
            about = self.explained.get(one.kind)
            if about is None:
                yield f"{one.kind} is not explained: {one.why}"
            elif about.whose == "transformers" and not one.alone:
                yield f"{one.kind} comes through without hfconvert: it is a fault of ours"

    def _outdated(self) -> Iterator[str]:
        passed = {one.kind for one in self.answers} - {one.kind for one in self.failed}
        for kind in sorted(passed & self.explained.keys()):
            yield f"{kind} is explained and no exception any more"


def _all(kinds: Sequence[str]) -> str:
    return ", ".join(kinds)
