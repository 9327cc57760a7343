"""A configuration that was lost, rebuilt from what the files of the adapter record themselves.

Rank and targets are in the tensors. Alpha is not: it stands in kohya's files, in their metadata, or in the
recipe. Nothing else is guessed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hfconvert.errors import Problem, UserError, recipe_problem, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.lora.adapter import Part
from hfconvert.lora.methods import PARAMETERS
from hfconvert.lora.naming import Naming
from hfconvert.lora.settings import Settings

METADATA = "lora_adapter_metadata"  # of diffusers
ALPHA = "ss_network_alpha"  # of kohya's scripts


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to rebuild from; `alpha` is the recipe's, and where it stands or would stand."""

    parts: tuple[Part, ...]
    naming: Naming
    metadata: Mapping[str, str]
    alpha: float | None
    label: str
    where_alpha: str


def rebuild_settings(known: Known) -> tuple[dict[str, Settings], tuple[Finding, ...]]:
    """Settings by the part of the pipeline (`""` for all), and how they came about.

    UserError (exit 2) that names lora.lora_alpha where no file records alpha; exit 3 where the tensors are
    of no method that can be told from them.
    """
    recorded = _recorded(known.metadata)
    if recorded:
        message = f"its configuration is that of its metadata, `{METADATA}`"
        return recorded, (info("lora", known.label, message),)
    method = _method(known)
    alpha, origin = _alpha(known)
    values = {
        "peft_type": method,
        **_ranks(known.parts),
        "lora_alpha" if method == "LORA" else "alpha": alpha,
        "target_modules": sorted(part.module for part in known.parts if _is_adapted(part)),
        "use_dora": any("magnitude" in name for part in known.parts for name in part.tensors),
        "bias": "none",
    }
    saved = sorted(part.module for part in known.parts if not _is_adapted(part))
    values |= {"modules_to_save": saved} if saved else {}
    return {"": Settings(values, "rebuilt")}, tuple(_said(known, values, origin))


def _recorded(metadata: Mapping[str, str]) -> dict[str, Settings]:
    """What diffusers records in the header of the file, by the part of the pipeline."""
    try:
        flat = json.loads(metadata.get(METADATA, "null"))
    except ValueError:
        return {}
    parts: dict[str, dict[str, Any]] = {}
    for key, value in (flat or {}).items() if isinstance(flat, dict) else ():
        component, _, field = key.partition(".")
        parts.setdefault(component if field else "", {})[field or component] = value
    return {
        component: Settings({"peft_type": "LORA", **values}, METADATA)
        for component, values in parts.items()
        if "r" in values
    }


def _method(known: Known) -> str:
    names = (name.partition(".")[0] for part in known.parts for name in part.tensors)
    methods = Counter(PARAMETERS[name] for name in names if name in PARAMETERS)
    if not methods:
        raise UserError(_no_method(known.label))
    return methods.most_common(1)[0][0]


def _ranks(parts: Iterable[Part]) -> dict[str, Any]:
    """The commonest rank, and those of the modules that have another."""
    ranks = {part.module: rank for part in parts if (rank := rank_of(part)) is not None}
    if not ranks:
        return {}
    common = Counter(ranks.values()).most_common(1)[0][0]
    others = {module: rank for module, rank in ranks.items() if rank != common}
    return {"r": common, "rank_pattern": others}


def rank_of(part: Part) -> int | None:
    """The rank by the shapes of the factors, None where there are none."""
    for name, axis in _RANKED:
        if name in part.tensors:
            return part.tensors[name].spec.shape[axis]
    return None


# Factors, and the dimension of each that is the rank.
_RANKED = (
    ("lora_A.weight", 0),
    ("lora_embedding_A", 0),
    ("hada_w1_b", 0),
    ("lokr_w1_b", 0),
    ("lokr_w2_b", 0),
)


def _alpha(known: Known) -> tuple[float, str]:
    """Alpha and where it is from. Each module's own, if recorded, wins over it."""
    if known.alpha is not None:
        return known.alpha, "lora.lora_alpha of the recipe"
    own = [part.alpha for part in known.parts if part.alpha is not None]
    if own and len(own) == sum(_is_adapted(part) for part in known.parts):
        return Counter(own).most_common(1)[0][0], "what the file records for every module"
    if ALPHA in known.metadata:
        try:
            return float(known.metadata[ALPHA]), f"`{ALPHA}` of its metadata"
        except ValueError:
            pass
    if known.naming in ("diffusers", "kohya"):
        ranks = [rank for part in known.parts if (rank := rank_of(part)) is not None]
        if len(set(ranks)) == 1:
            return float(ranks[0]), _CONVENTION
    raise UserError(_no_alpha(known))


_CONVENTION = "the convention of such files, which record no alpha: alpha is the rank"


def _is_adapted(part: Part) -> bool:
    return any(name.partition(".")[0] in PARAMETERS for name in part.tensors)


def _said(known: Known, values: Mapping[str, Any], origin: str) -> Iterator[Finding]:
    text = json.dumps({key: value for key, value in values.items() if value not in ({}, False)})
    if len(text) > 400:
        text = f"{text[:400]}..."
    alpha = values.get("lora_alpha", values.get("alpha"))
    message = f"its configuration was lost and is rebuilt: rank from the tensors, alpha {alpha:g} "
    hint = "whether it was trained with use_rslora no file tells; give lora.lora_alpha if alpha is another"
    say = warning if origin == _CONVENTION or known.naming == "peft" else info
    yield say("lora", known.label, f"{message}from {origin}; {text}", hint)


def _no_alpha(known: Known) -> Problem:
    ranks = sorted({rank for part in known.parts if (rank := rank_of(part)) is not None})
    return recipe_problem(
        f"its configuration was lost, and no file records its alpha (rank {', '.join(map(str, ranks))})",
        why="the scale of the update is alpha / rank: without it the merge would be a guess",
        do="fetch adapter_config.json, or give lora.lora_alpha as it was in the training",
        subject=f"{known.where_alpha}: {known.label}" if known.where_alpha else known.label,
        check="lora",
    )


def _no_method(label: str) -> Problem:
    return source_problem(
        "there is no adapter_config.json, and its tensors are of no method that can be told from them",
        why="it is a model and not an adapter, or base and adapter were swapped",
        do="look at it with `hfconvert inspect`, and give the adapter",
        subject=label,
        check="lora",
    )
