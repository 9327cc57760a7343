"""The model that a quantised one was made from: by its model card, else by the names of repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hfconvert.recipe.document import compose

CARD = "README.md"
MAX_CARD = 1 << 20  # bytes
_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# Ends of names of repositories that say how the weights were quantised.
_ENDS = re.compile(
    r"[-_.]((unsloth[-_])?bnb[-_])?(4bit|8bit|nf4|fp4|int4|int8|w4a16|w8a8|gptq([-_]int\d)?|awq|fp8|mxfp4"
    r"|gptq[-_]\dbit|hqq|eetq|aqlm|quantized)([-_.].*)?$",
    re.IGNORECASE,
)


def parent_of(config: Mapping[str, Any], source: str | None, folder: Path | None) -> str | None:
    """The id of the model that was quantised; None where neither card nor name tells."""
    said = _base_of_card(folder / CARD) if folder else None
    return said if said not in (None, source) else _by_name(config, source)


def _by_name(config: Mapping[str, Any], source: str | None) -> str | None:
    for name in (source, config.get("_name_or_path")):
        if isinstance(name, str) and "/" in name and _ENDS.search(name):
            return _ENDS.sub("", name)
    return None


def _base_of_card(card: Path) -> str | None:
    """`base_model` of the card's metadata, where it is one model and the relation is no other."""
    try:
        text = card.read_text("utf-8", "replace") if card.stat().st_size <= MAX_CARD else ""
    except OSError:
        return None
    head = _HEAD.match(text)
    facts = compose(head[1], CARD).value if head else None
    if not isinstance(facts, dict) or facts.get("base_model_relation", "quantized") != "quantized":
        return None
    named = facts.get("base_model")
    several = named if isinstance(named, tuple) else [named]
    one = several[0] if len(several) == 1 else None
    return one if isinstance(one, str) and _ID.fullmatch(one) else None
