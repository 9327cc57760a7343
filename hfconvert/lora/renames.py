"""What the modules of an adapter are called in the files of the base.

transformers renamed modules between versions (vision-language models in 4.52, mixtures of experts in 5.0),
and an adapter may have been trained on a model with its head or without. Whichever name is in the files
counts. Source of the pairs: `_checkpoint_conversion_mapping` and `conversion_mapping.py` of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

# One front of a name for another; each is tried in both directions.
_FRONTS = (
    ("model.language_model.", "language_model.model."),
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("model.language_model.", "language_model."),
    ("model.text_model.", "text_model.model."),
    ("model.visual.", "visual."),
    ("model.vision_tower.", "vision_tower."),
    ("model.vision_model.", "vision_model."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("model.audio_tower.", "audio_tower."),
    ("lm_head", "language_model.lm_head"),
    ("text_model.", ""),
    ("model.", ""),
    ("transformer.", ""),
    ("bert.", ""),
    ("roberta.", ""),
    ("distilbert.", ""),
    ("deberta.", ""),
    ("electra.", ""),
    ("gpt_neox.", ""),
    ("vit.", ""),
    ("esm.", ""),
)
_INNER = ((".block_sparse_moe.", ".mlp."),)


@dataclass(frozen=True, slots=True)
class Rename:
    """One front for another, after one inner part for another; the identity where all are empty."""

    front: tuple[str, str] = ("", "")
    inner: tuple[str, str] = ("", "")

    def __call__(self, name: str) -> str | None:
        """The other name; None where this rename does not apply."""
        (given, found), (old, new) = self.front, self.inner
        if not name.startswith(given) or (old and old not in f"{name}."):
            return None
        name = found + name.removeprefix(given)
        return name.replace(old, new) if old else name

    def back(self, name: str) -> str | None:
        """The inverse."""
        front, inner = (self.front[1], self.front[0]), (self.inner[1], self.inner[0])
        return Rename(front, inner)(name)

    def __str__(self) -> str:
        pairs = [pair for pair in (self.front, self.inner) if pair != ("", "")]
        return ", ".join(f"`{given}` -> `{found}`" for given, found in pairs)


IDENTITY = Rename()


def candidates() -> Iterator[Rename]:
    """Renames in the order in which they are tried."""
    fronts = [("", ""), *(pair for one in _FRONTS for pair in (one, (one[1], one[0])))]
    inners = [("", ""), *(pair for one in _INNER for pair in (one, (one[1], one[0])))]
    for inner in inners:
        for front in fronts:
            yield Rename(front, inner)


def find_names(names: Iterable[str], known: Callable[[str], bool]) -> dict[str, tuple[str, Rename]]:
    """For every name that can be found its name in the base, and how it came about.

    A rename that finds more of the names is preferred to one that finds fewer; the identity among equals.
    """
    left = list(dict.fromkeys(names))
    found: dict[str, tuple[str, Rename]] = {}
    while left:
        best, hits = _best(left, known)
        if not hits:
            break
        found |= {name: (other, best) for name, other in hits.items()}
        left = [name for name in left if name not in hits]
    return found


def _best(names: list[str], known: Callable[[str], bool]) -> tuple[Rename, Mapping[str, str]]:
    best: tuple[Rename, Mapping[str, str]] = (IDENTITY, {})
    for rename in candidates():
        pairs = ((name, rename(name)) for name in names)
        hits = {name: other for name, other in pairs if other is not None and known(other)}
        if len(hits) > len(best[1]):
            best = (rename, hits)
        if len(hits) == len(names):
            break
    return best
