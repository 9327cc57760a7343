"""What changes in `config.json`: its dtype follows the tensors, and ties that a step made or undid are said.

A field is changed only where it is; the name that it has in the source (`dtype` or `torch_dtype`) stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hfconvert.dtypes.convert import FLOATS
from hfconvert.findings import Finding, info, warning
from hfconvert.readers.config import CONFIG, DTYPE, TIE, is_quantization, model_configs
from hfconvert.readers.json_text import KeyPath, replace_values
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.source import LocalFile

# Names that torch has twice.
_SAME = {"half": "float16", "float": "float32", "double": "float64"}
# Parts of a model by what their tensors are called.
_WORDS = {
    "text_config": ("language_model", "text"),
    "vision_config": ("vision", "visual", "image"),
    "audio_config": ("audio",),
}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A side file that is written with some values changed: where from, what it holds, what is new in it."""

    source: LocalFile
    content: bytes
    changed: Mapping[KeyPath, Any]
    findings: tuple[Finding, ...]


def configure(
    file: LocalFile | None,
    config: Mapping[str, Any] | None,
    stored: Checkpoint,
    before: Mapping[str, str],
    *,
    tied: bool | None,
    merged: Mapping[KeyPath, Any] | None = None,
) -> Rewritten | None:
    """The configuration as the result needs it, or None where it stays as it is.

    `stored` are the tensors as they are written, `before` the dtype codes that they had; `tied` is what a
    step of the recipe made of input embedding and head, None where none did; `merged` are values that
    follow from merged adapters.
    """
    if file is None or config is None:
        return None
    cast = {name for name, entry in stored.items() if before[name] != entry.tensor.spec.dtype.code}
    dtypes = dict(_dtypes(config, stored, cast))
    ties = dict(_ties(config, tied))
    changed = {**dtypes, **ties, **(merged or {})}
    if not changed:
        return None
    content = replace_values(file.path.read_bytes(), changed)
    findings = (*_dtype_findings(config, dtypes, cast), *_tie_findings(ties))
    return Rewritten(file, content, changed, findings)


def torch_name(value: object) -> str | None:
    """torch's name of the dtype that a field of a configuration says, or None where it says none."""
    if not isinstance(value, str):
        return None
    name = value.removeprefix("torch.")
    name = _SAME.get(name, name)
    return name if name in BY_TORCH else None


def _dtypes(
    config: Mapping[str, Any], stored: Checkpoint, cast: set[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Fields to change: the dtype that most bytes of the part have.

    Where nothing of the part was cast, a dtype that some of its tensors have is no error: models keep some
    of their weights wider. Quantised weights say nothing of the dtype that the others are computed in.
    """
    quantized = any(is_quantization(key) and value for key, value in config.items())
    for path, part in model_configs(config):
        names = _names_of(path, stored)
        nbytes = _bytes_by_dtype(names, stored, eight_bits=not quantized)
        if not nbytes or (quantized and cast.isdisjoint(names)):
            continue
        main = nbytes.most_common(1)[0][0]
        for key in DTYPE:
            said = torch_name(part.get(key))
            kept = said in nbytes and cast.isdisjoint(names)
            if said is not None and said != main and not kept:
                prefix = "torch." if part[key].startswith("torch.") else ""
                yield (*path, key), prefix + main


def _names_of(path: KeyPath, stored: Checkpoint) -> list[str]:
    """The tensors of a part of the model; all of them where names do not tell."""
    words = next((_WORDS[key] for key in path if key in _WORDS), ())
    found = [
        name for name in stored if any(part.startswith(words) for part in name.split(".") if words)
    ]
    return found or list(stored)


def _bytes_by_dtype(names: list[str], stored: Checkpoint, *, eight_bits: bool) -> Counter[str]:
    nbytes: Counter[str] = Counter()
    for name in names:
        spec = stored[name].tensor.spec
        if spec.dtype.code in FLOATS and (eight_bits or spec.dtype.bits > 8):
            nbytes[spec.dtype.torch] += spec.nbytes
    return nbytes


def _ties(config: Mapping[str, Any], tied: bool | None) -> Iterator[tuple[KeyPath, bool]]:
    """Where the configuration says another thing, and at its top where that is silent: classes differ."""
    if tied is None:
        return
    for path, part in model_configs(config):
        if part.get(TIE, tied) is not tied or (TIE not in part and not path):
            yield (*path, TIE), tied


def _dtype_findings(
    config: Mapping[str, Any], changed: Mapping[KeyPath, str], cast: set[str]
) -> Iterator[Finding]:
    for path, new in changed.items():
        part: Any = config
        for key in path:
            part = part[key]
        field = ".".join(path)
        if cast:
            yield info("files", CONFIG, f"`{field}` follows the tensors: {part} -> {new}")
        else:
            yield warning(
                "files",
                CONFIG,
                f"`{field}` says {part}, but the tensors are {new}; {new} is written",
                "the tensors are as they were; only this field of the copy differs",
            )


def _tie_findings(changed: Mapping[KeyPath, bool]) -> Iterator[Finding]:
    for path, tied in changed.items():
        step = "a `tie` step wrote one name" if tied else "an `untie` step wrote both names"
        yield info("files", CONFIG, f"`{'.'.join(path)}` is {str(tied).lower()} now: {step}")
