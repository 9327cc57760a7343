"""Input embeddings and heads: their names, what is tied when the files hold one of the two, their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

INPUT = re.compile(
    r"(^|\.)(embed_tokens|word_embeddings?|tok_embeddings?|wte|shared|embed_in)\.weight$"
)
HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output_layer|output)\.weight$")
_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForImageTextToText")


def implied_ties(names: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """The head that a model with a head has and the files do not hold, with the embedding it is tied to.

    Empty where the configuration says that they are not tied, or names no model with a head.
    """
    known = list(names)
    inputs = [name for name in known if INPUT.search(name)]
    said = _said(config)
    classes = config.get("architectures") or ()
    causal = any(str(name).endswith(_CAUSAL) for name in classes)
    if not inputs or said is False or any(HEAD.search(name) for name in known):
        return {}
    if not causal and said is not True:
        return {}
    language = next((name for name in inputs if "vis" not in name), inputs[0])
    front = "language_model." if language.startswith("language_model.model.") else ""
    return {f"{front}lm_head.weight": language}


def _said(config: Mapping[str, Any]) -> bool | None:
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    said = [part["tie_word_embeddings"] for part in parts if "tie_word_embeddings" in part]
    return True if True in said else False if False in said else None
