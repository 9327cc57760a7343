"""An adapter that is converted by itself: it keeps its configuration, and kohya's names become PEFT's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hfconvert.errors import UserError
from hfconvert.findings import Finding, info, warning
from hfconvert.lora.adapter import Part
from hfconvert.lora.kohya import is_kohya, parse_kohya
from hfconvert.lora.naming import Key, naming_of, parse_names
from hfconvert.lora.reading import parts_of
from hfconvert.lora.rebuild import Known, rebuild_settings
from hfconvert.lora.settings import ADAPTER_CONFIG, Settings
from hfconvert.lora.words import dotted
from hfconvert.readers.load import Found
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry

PREFIX = "base_model.model."


@dataclass(frozen=True, slots=True)
class Alone:
    """The adapter as it is written: its tensors, its configuration where it has to be written too.

    `stem` is the name that PEFT looks for, empty where the source's stays.
    """

    checkpoint: Checkpoint
    config: bytes | None = None
    stem: str = ""
    findings: tuple[Finding, ...] = ()


def convert_alone(found: Found, *, renames: bool) -> Alone:
    """The adapter with its configuration: its own, else one rebuilt from what its files record.

    With `renames`, kohya's names become PEFT's where every one of them can be told. UserError (exit 2) where
    the configuration was lost and no file records alpha.
    """
    names = list(found.checkpoint)
    if is_kohya(names):
        return _from_kohya(found) if renames else Alone(found.checkpoint)
    naming = naming_of(names)
    if naming != "peft" or _has_config(found.root):
        return Alone(found.checkpoint)
    known = _known(found, parse_names(names, naming))
    settings, findings = rebuild_settings(known)
    config = _config(next(iter(settings.values())))
    return Alone(found.checkpoint, config, "", findings)


def _from_kohya(found: Found) -> Alone:
    keys = parse_kohya(found.checkpoint)
    modules = {key.module: dotted(key.module) for key in keys.values()}
    unknown = [module for module, name in modules.items() if name is None]
    components = {key.component for key in keys.values()}
    known = _known(found, keys)
    plain = all(set(part.tensors) <= {"lora_A.weight", "lora_B.weight"} for part in known.parts)
    if unknown or len(components) > 1 or not plain:
        return Alone(found.checkpoint, findings=(_kept(found, unknown, components),))
    try:
        settings, findings = rebuild_settings(known)
    except UserError:
        return Alone(found.checkpoint, findings=(_kept(found, unknown, components),))
    entries: dict[str, Entry] = {}
    dropped = []
    for name, entry in found.checkpoint.items():
        key = keys[name]
        if key.parameter == "alpha":
            dropped.append(Dropped(name, f"lora: alpha stands in {ADAPTER_CONFIG}"))
            continue
        module = modules[key.module]
        steps = (*entry.steps, "kohya to PEFT")
        entries[f"{PREFIX}{module}.{key.parameter}"] = Entry(entry.tensor, entry.sources, steps)
    message = f"{len(entries)} tensors have the names of PEFT now, and {ADAPTER_CONFIG} is written"
    said = info("lora", str(found.root), message, "key_map: [] keeps the names as they are")
    config = _config(_renamed(next(iter(settings.values())), known.parts, modules))
    checkpoint = found.checkpoint.with_entries(entries, *dropped)
    return Alone(checkpoint, config, "adapter_model", (*findings, said))


def _renamed(
    settings: Settings, parts: Iterable[Part], modules: Mapping[str, str | None]
) -> Settings:
    """Targets and patterns under the names that PEFT knows, with the alpha of every module."""
    alphas = {str(modules[part.module]): part.alpha for part in parts if part.alpha is not None}
    common = settings.get("lora_alpha")
    values = dict(settings.values)
    values["target_modules"] = sorted(
        str(modules[name]) for name in settings.get("target_modules", ())
    )
    values["rank_pattern"] = {
        f"^{modules[name]}": rank for name, rank in settings.get("rank_pattern", {}).items()
    }
    values["alpha_pattern"] = {
        f"^{name}": alpha for name, alpha in sorted(alphas.items()) if alpha != common
    }
    return Settings(values, settings.origin)


def _known(found: Found, keys: Mapping[str, Key]) -> Known:
    tensors = {name: entry.tensor for name, entry in found.checkpoint.items()}
    names = list(found.checkpoint)
    naming = "kohya" if is_kohya(names) else naming_of(names)
    _, parts = parts_of(keys, tensors)
    return Known(parts, naming, found.metadata, None, str(found.root), "")


def _has_config(root: Path) -> bool:
    return (root / ADAPTER_CONFIG).is_file()


def _config(settings: Settings) -> bytes:
    values = {"base_model_name_or_path": None, "inference_mode": True, **settings.values}
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()


def _kept(found: Found, unknown: list[str], components: set[str]) -> Finding:
    reason = "; ".join(_reasons(unknown, components)) or "it is of a kind that PEFT has not"
    message = f"the names stay as kohya's scripts write them: {reason}"
    return warning(
        "lora", str(found.root), message, "merge it into its base, which tells the names"
    )


def _reasons(unknown: list[str], components: set[str]) -> Iterator[str]:
    if unknown:
        yield f"{len(unknown)} modules could be called in several ways, {unknown[0]} for one"
    if len(components) > 1:
        yield f"it is for several models: {', '.join(sorted(components))}"
