"""The answer to the question of `logits`: both sides loaded one after the other, asked the same, compared."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hfconvert.checks.architecture.model import UnfitError, model_class
from hfconvert.checks.logits.adapters import with_adapters
from hfconvert.checks.logits.golden import GoldenError, read_golden
from hfconvert.checks.logits.inputs import Inputs, InputsError, attempts
from hfconvert.checks.logits.layers import TooLargeError, layered, open_source
from hfconvert.checks.logits.measure import (
    Difference,
    by_position,
    differ,
    effect_error,
    mean_loss,
    relative,
)
from hfconvert.checks.logits.sides import Computed, NoOutputError, compute, finite, load_model

Request = Mapping[str, Any]


def compare_sides(request: Request) -> dict[str, Any]:
    """Compare what the reference and the candidate compute.

    The request: `candidate` (a folder), `reference` (a folder, or a file of golden logits), `config` (of the
    candidate), `custom`, `prompts` (or null), `adapters` (of a merge: folder and weight), `memory` (bytes, or
    null for what is free). The answer has the figures; `skipped` where the harness could not
    compare, `failed` where the candidate cannot be loaded or gives no numbers.
    """
    import torch

    with torch.random.fork_rng(devices=[]):  # seeds are set on the way: nobody else's change
        return _compared(Path(request["candidate"]), Path(request["reference"]), request)


class _HarnessFaultError(Exception):
    """Nothing is said of the candidate."""


class _CandidateFaultError(Exception):
    """The candidate cannot do what the reference did."""


_FAULTS = (UnfitError, GoldenError, InputsError, NoOutputError, TooLargeError, _HarnessFaultError)


def _compared(candidate: Path, reference: Path, request: Request) -> dict[str, Any]:
    try:
        cls, _ = model_class(request["config"], candidate, custom=request["custom"])
        inputs, ours, base, unread = _reference(cls, reference, request)
        if not finite(ours):
            raise _HarnessFaultError("the reference itself gives numbers that are not finite")
        theirs, loaded = _candidate(cls, candidate, inputs, request)
        _check_alike(ours, unread, theirs, loaded.missing)
    except _FAULTS as error:
        return {"skipped": str(error)}
    except _CandidateFaultError as error:
        return {"failed": str(error)[:400]}
    figures = _figures(inputs, ours, theirs, base)
    return {**figures, "missing": loaded.missing, "by_layer": loaded.by_layer}


def _check_alike(
    ours: Computed, unread: Sequence[str], theirs: Computed, missing: Sequence[str]
) -> None:
    """Both sides had the same names and gave outputs of the same shapes; an error says whose fault else."""
    lost = sorted(set(missing) - set(unread))
    if lost:
        raise _CandidateFaultError(
            f"names that the reference has are missing: {', '.join(lost[:5])}"
        )
    if set(unread) - set(missing):
        raise _HarnessFaultError(f"transformers cannot read the reference: it finds no {unread[0]}")
    shapes = [[one.shape for one in side.outputs] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise _CandidateFaultError("outputs have other shapes than the reference's")


def _reference(
    cls: Any, reference: Path, request: Request
) -> tuple[Inputs, Computed, Computed | None, list[str]]:
    """The inputs, the reference's output, the base's where adapters are part of it, and what it lacks."""
    if reference.is_file():
        return (*read_golden(reference), None, [])
    adapters: Sequence[Mapping[str, Any]] = request["adapters"]
    loaded = _load(cls, reference, request, may_layer=not adapters)
    known = attempts(loaded.model, reference, request["prompts"])
    if loaded.by_layer:
        known = (one.stacked() for one in known)
    inputs, computed = _first_that_runs(loaded.model, known, must=bool(request["prompts"]))
    if not adapters:
        return inputs, computed, None, loaded.missing
    merged = compute(with_adapters(loaded.model, adapters), inputs)
    return inputs, merged, computed, loaded.missing


class _Loaded(NamedTuple):
    """A model, the names that its weights lack, and whether its layers come and go."""

    model: Any
    missing: list[str]
    by_layer: bool


def _candidate(
    cls: Any, candidate: Path, inputs: Inputs, request: Request
) -> tuple[Computed, _Loaded]:
    gc.collect()  # the reference's modules hold each other; both sides at once would not fit
    try:
        loaded = _load(cls, candidate, request, may_layer=True)
        return compute(loaded.model, inputs), loaded
    except (MemoryError, TooLargeError, _HarnessFaultError):
        raise
    except Exception as error:
        said = f"the candidate cannot be run: {type(error).__name__}: {error}"
        if "allocate memory" in said or Path(request["reference"]).is_file():
            raise _HarnessFaultError(
                said
            ) from error  # the class was not tried on these inputs before
        raise _CandidateFaultError(said) from error


def _load(cls: Any, folder: Path, request: Request, *, may_layer: bool) -> _Loaded:
    """The model of a folder, whole where there is memory for it, else a layer at a time."""
    if not (folder / "config.json").is_file():
        raise _HarnessFaultError(f"{folder} has no config.json")  # the class's defaults may be huge
    weights = open_source(cls, folder, request)
    if not weights.too_large:
        model, info = load_model(cls, folder, custom=request["custom"])
        return _Loaded(model, sorted(info["missing_keys"]), by_layer=False)
    if not may_layer:
        raise TooLargeError(f"{weights.why}, and an adapter needs the model whole")
    return _Loaded(*layered(weights), by_layer=True)


def _first_that_runs(model: Any, known: Iterable[Inputs], *, must: bool) -> tuple[Inputs, Computed]:
    """The first inputs that the model accepts; texts `must` be accepted where the recipe gives them."""
    said = "there are no inputs for it"
    for inputs in known:
        try:
            return inputs, compute(model, inputs)
        except NoOutputError:
            raise
        except Exception as error:  # noqa: BLE001 - a forward raises anything at inputs it does not take
            said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            if inputs.is_text and must:
                break
    raise InputsError(f"the reference cannot be run on any inputs that we know: {said}"[:400])


def _figures(
    inputs: Inputs, ours: Computed, theirs: Computed, base: Computed | None
) -> dict[str, Any]:
    differences = [
        differ(one, other) for one, other in zip(ours.outputs, theirs.outputs, strict=True)
    ]
    rows = [
        {"input": label, **one.as_json()}
        for label, one in zip(inputs.labels, differences, strict=True)
    ]
    figures = {
        "output": ours.name,
        "text": inputs.is_text,
        "by_input": sorted(rows, key=lambda row: float(row["cosine_min"])),
        "cosine_by_position": by_position(differences),
        "difference_by_layer": relative(ours.layers, theirs.layers)
        if _same_layers(ours, theirs)
        else [],
        **_totals(differences),
        **_losses(inputs, ours, theirs),
    }
    if base is not None:
        error, effect = effect_error(base.outputs, ours.outputs, theirs.outputs)
        figures |= {"effect_error": error, "effect": effect}
    return figures


def _same_layers(ours: Computed, theirs: Computed) -> bool:
    return [one.shape for one in ours.layers] == [one.shape for one in theirs.layers]


def _totals(differences: Sequence[Difference]) -> dict[str, float]:
    cosines = [cosine for one in differences for cosine in one.cosines]
    return {
        "cosine_min": min(cosines),
        "cosine_mean": math.fsum(cosines) / len(cosines),
        "residual": max(one.residual for one in differences),
        "max_difference": max(one.largest for one in differences),
        "kl": math.fsum(one.kl for one in differences) / len(differences),
        "top1": math.fsum(one.top1 for one in differences) / len(differences),
    }


def _losses(inputs: Inputs, ours: Computed, theirs: Computed) -> dict[str, float]:
    """Mean loss of the next token, where the output is one row of logits a token of text."""
    if not inputs.is_text or ours.name != "logits" or "input_ids" not in inputs.batches[0]:
        return {}
    ids = inputs.ids()
    rows = [len(one) == len(known) for one, known in zip(ours.outputs, ids, strict=True)]
    width = ours.outputs[0].shape[1]
    if not all(rows) or "decoder_input_ids" in inputs.batches[0] or max(map(max, ids)) >= width:
        return {}
    return {
        "loss_reference": mean_loss(ours.outputs, ids),
        "loss": mean_loss(theirs.outputs, ids),
        "loss_by_chance": math.log(width),
    }
