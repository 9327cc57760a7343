"""`adapter_config.json`, read strictly: what is set and unknown may change the arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfconvert.errors import Problem, UserError, raise_any, source_problem
from hfconvert.findings import Finding, warning
from hfconvert.lora.methods import METHODS, Method

ADAPTER_CONFIG = "adapter_config.json"
MAX_CONFIG = 16 << 20  # bytes
_UNSET = (None, False, "", 0, 0.0)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an adapter was trained with: the fields of its configuration, and where they are from.

    Fields that are absent have PEFT's defaults.
    """

    values: Mapping[str, Any]
    origin: str

    @property
    def peft_type(self) -> str:
        """PEFT's name of the method, in capitals."""
        return str(self.values["peft_type"]).upper()

    @property
    def method(self) -> Method:
        """The method."""
        return METHODS[self.peft_type]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default where it is absent or null."""
        value = self.values.get(name)
        return default if value is None else value


def read_settings(path: Path) -> tuple[Settings, tuple[Finding, ...]]:
    """The configuration of an adapter. UserError (exit 3) with all that is wrong with it."""
    document = _read(path)
    subject = str(path)
    raise_any(_not_an_adapter(document, subject))
    settings = Settings(document, ADAPTER_CONFIG)
    raise_any([*_unmergeable(settings, subject), *_unknown_set(settings, subject)])
    return settings, tuple(_unknown_unset(settings, subject))


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_CONFIG:
            raise UserError(_broken(path, f"it is larger than {MAX_CONFIG} bytes"))
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(_broken(path, str(error))) from error
    if not isinstance(document, dict):
        raise UserError(_broken(path, "it is no JSON object"))
    return document


def _not_an_adapter(document: Mapping[str, Any], subject: str) -> Iterator[Problem]:
    kind = document.get("peft_type")
    if kind is None:
        model = document.get("model_type") or document.get("architectures")
        yield source_problem(
            "this is the configuration of a model, not of an adapter"
            if model
            else "this configuration does not say its `peft_type`",
            why="it was overwritten with the config.json of the base"
            if model
            else "it is cut short",
            do="fetch the adapter's own adapter_config.json, or remove this file to have it rebuilt",
            subject=subject,
            check="lora",
        )
    elif str(kind).upper() not in METHODS:
        yield source_problem(
            f"`peft_type` is {kind!r}, a method that hfconvert does not know",
            why="a later PEFT wrote it",
            do="merge it with that PEFT, or use a later hfconvert",
            subject=subject,
            check="lora",
        )


def _unmergeable(settings: Settings, subject: str) -> Iterator[Problem]:
    if settings.method.refused:
        yield _refused(settings.peft_type, settings.method.refused, subject)
    for field, reason in _NO_MERGE.items():
        if settings.get(field):
            yield _refused(f"`{field}`", reason, subject)
    init = settings.values.get("init_lora_weights")
    for start, reason in _INITIALISERS.items():
        if isinstance(init, str) and init.lower().startswith(start):
            yield _refused(f"`init_lora_weights: {init}`", reason, subject)


def _refused(what: str, reason: str, subject: str) -> Problem:
    return source_problem(
        f"{what} cannot be merged",
        why=reason,
        do="keep base and adapter apart and load them with PEFT",
        subject=subject,
        check="lora",
    )


# Fields of LoRA whose effect is no change of the weights.
_NO_MERGE = {
    "alora_invocation_tokens": "the update acts only behind the invocation tokens (aLoRA)",
    "arrow_config": "the update is routed by the input (Arrow)",
    "sample_at_inference": "what it adds is drawn at random for every input",
    "layer_replication": "the layers of the base are repeated, and the result has more of them",
}
# Initialisers that change the base in a way that the files do not hold.
_INITIALISERS = {
    "pissa_niter": "its decomposition of the base is drawn at random, and what was taken away is not stored",
    "corda": "what it took away from the base depends on data that is not stored",
    "loftq": "what it took away from the base depends on a quantisation that is not stored",
    "lora_ga": "what it took away from the base depends on data that is not stored",
}


def _unknown_set(settings: Settings, subject: str) -> Iterator[Problem]:
    unknown = [name for name in _unknown(settings) if settings.values[name] not in _UNSET]
    unknown = [name for name in unknown if settings.values[name] not in ({}, [])]
    if unknown:
        shown = ", ".join(f"`{name}: {json.dumps(settings.values[name])[:80]}`" for name in unknown)
        yield source_problem(
            f"fields that hfconvert does not know are set: {shown}",
            why="a later PEFT wrote them, and they may change how the update is computed",
            do="set them to null in a copy of the adapter if they matter for training only",
            subject=subject,
            check="lora",
        )


def _unknown_unset(settings: Settings, subject: str) -> Iterator[Finding]:
    unknown = list(_unknown(settings))
    if unknown:
        message = f"fields that hfconvert does not know, none of them set: {', '.join(unknown)}"
        yield warning("lora", subject, message)


def _unknown(settings: Settings) -> Iterator[str]:
    return (name for name in settings.values if name not in settings.method.fields)


def _broken(path: Path, how: str) -> Problem:
    return source_problem(
        f"this configuration cannot be read: {how}",
        why="it is damaged, or a download was interrupted",
        do="fetch it again, or remove it to have it rebuilt",
        subject=str(path),
        check="lora",
    )
