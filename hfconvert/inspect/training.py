"""What is known of the run that wrote a checkpoint: counters, settings, the bytes of its optimizer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hfconvert.inspect.look import Seen

MAX_LOG = 16 << 20  # bytes of a trainer_state.json
_STEPS = ("global_step", "step", "iteration", "iterations", "steps")
_SETTINGS = ("hyper_parameters", "hparams", "args", "config", "cfg", "opt")
_LOG = ("epoch", "global_step", "max_steps", "num_train_epochs", "best_metric", "total_flos")


def training_facts(seen: Iterable[Seen]) -> dict[str, Any] | None:
    """Facts of the files under their own names, and `epoch`, `step`, `hyper_parameters`, `optimizer_bytes`.

    `training_args` are those that the Trainer keeps in a file of its own. None where nothing speaks of a run.
    """
    files = list(seen)
    facts: dict[str, Any] = {}
    for one in files:
        if one.contents and one.role == "weights":
            facts |= one.contents.facts
    for one in files:
        facts = {**_beside(one), **facts}
    nbytes = sum(
        other.spec.nbytes
        for one in files
        if one.contents
        for other in one.contents.others
        if other.role == "optimizer"
    )
    if not facts and not nbytes:
        return None
    _name_anew(facts)
    return {**facts, "optimizer_bytes": nbytes}


def is_training(facts: Mapping[str, Any] | None) -> bool:
    """Whether the facts are those of a run that can be resumed, and not of a model alone."""
    if facts is None:
        return False
    counted = any(isinstance(facts.get(key), (int, float)) for key in ("epoch", "step"))
    return bool(facts["optimizer_bytes"]) or counted or facts.get("framework") == "lightning"


def _name_anew(facts: dict[str, Any]) -> None:
    """Give the counter of steps and the settings the names that they have for every framework."""
    for name, others in (("step", _STEPS), ("hyper_parameters", _SETTINGS)):
        found = next((facts[other] for other in others if facts.get(other) is not None), None)
        if found is not None:
            facts.setdefault(name, found)


def _beside(one: Seen) -> dict[str, Any]:
    """What files beside the weights tell: the Trainer's arguments, and its log."""
    base = one.file.name.rpartition("/")[2]
    if base == "training_args.bin" and one.contents:
        return {"training_args": dict(one.contents.facts)} if one.contents.facts else {}
    return _log(one) if base == "trainer_state.json" else {}


def _log(one: Seen) -> dict[str, Any]:
    if one.file.size > MAX_LOG:
        return {}
    try:
        document = json.loads(one.file.path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = {key: document[key] for key in _LOG if isinstance(document.get(key), (int, float))}
    return {**found, "framework": "transformers"}
