"""Which tensors of a checkpoint are cast, and to what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hfconvert.dtypes.cast import Cast, Sum
from hfconvert.dtypes.convert import FLOATS
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.keymap.patterns import Pattern
from hfconvert.recipe.casts import KEEP, Dtype
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.tally import Tally

# What belongs to packed or quantised weights and loses its meaning when it is cast: bitsandbytes, GPTQ, AWQ,
# compressed-tensors and block-wise fp8.
_COMPANIONS = (
    ".absmax",
    ".nested_absmax",
    ".quant_map",
    ".nested_quant_map",
    ".SCB",
    ".scales",
    ".zeros",
    ".weight_scale",
    ".weight_scale_inv",
    ".weight_zero_point",
    ".input_scale",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    "_scale_inv",
    "_scales",
)
_PACKED = (".qweight", ".weight_packed", ".quant_map", ".SCB", "_blocks")


@dataclass(frozen=True, slots=True)
class CastResult:
    """The checkpoint with its casts, what they will lose, and what was noticed."""

    checkpoint: Checkpoint
    tally: Tally
    findings: tuple[Finding, ...]


def cast(
    checkpoint: Checkpoint, dtype: Dtype, where: Callable[..., str], tally: Tally | None = None
) -> CastResult:
    """Cast every floating tensor to what the first matching rule says, else to the default.

    Integers, booleans, complex and packed types stay as they are, and so do quantised weights with their
    scales. A rule that matches no tensor is a warning. Losses are counted in `tally`, or a new one.
    """
    tally = tally or Tally()
    if dtype.keeps_all:
        return CastResult(checkpoint, tally, ())
    rules = [
        (Pattern.parse(text, where("dtype", "rules", text)), target)
        for text, target in dtype.rules.items()
    ]
    untouched = set(_quantized(checkpoint))
    hits: set[str] = set()
    entries: dict[str, Entry] = {}
    for name, entry in checkpoint.items():
        target = dtype.default
        for pattern, chosen in rules:
            if pattern.match(name):
                hits.add(pattern.text)
                target = chosen
                break
        entries[name] = entry if name in untouched else _cast(name, entry, target, tally)
    findings = [
        warning(
            "dtypes",
            where("dtype", "rules", text),
            f"`{text}` matched 0 tensors",
            "rules see the names after the key map, which `hfconvert plan --json` lists",
        )
        for text in dtype.rules
        if text not in hits
    ]
    if untouched:
        message = f"quantised weights and their scales are not cast: {listed(sorted(untouched))}"
        findings.append(info("dtypes", "", message))
    return CastResult(checkpoint.with_entries(entries), tally, tuple(findings))


def _cast(name: str, entry: Entry, target: str, tally: Tally) -> Entry:
    source = entry.tensor.spec.dtype
    if target == KEEP or source.code not in FLOATS or BY_TORCH[target] == source:
        return entry
    if isinstance(entry.tensor, Sum):
        node: LazyTensor = entry.tensor.rounded_to(BY_TORCH[target])
    else:
        node = Cast(entry.tensor, BY_TORCH[target], name, tally)
    return replace(entry, tensor=node, steps=(*entry.steps, f"dtype {target}"))


def _quantized(checkpoint: Checkpoint) -> Iterator[str]:
    """Names that belong to quantised weights: scales and the like, and fp8 weights that have scales."""
    scaled = {name for name in checkpoint if _is_scaled(name, checkpoint)}
    packed = scaled or any(name.endswith(_PACKED) for name in checkpoint)
    for name in checkpoint:
        if name in scaled or (packed and name.endswith(_COMPANIONS)):
            yield name


def _is_scaled(name: str, checkpoint: Checkpoint) -> bool:
    """Whether a tensor of one byte an element has a scale beside it."""
    dtype = checkpoint[name].tensor.spec.dtype
    ends = ("_scale_inv", "_scale", "_scales")
    return dtype.bits == 8 and any(f"{name}{end}" in checkpoint for end in ends)
