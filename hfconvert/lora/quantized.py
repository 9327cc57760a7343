"""Quantised bases: recognised, refused with the name of their parent, or made plain."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hfconvert.errors import Problem, UserError, raise_any, recipe_problem, source_problem
from hfconvert.findings import Finding, info
from hfconvert.keymap.fold import listed
from hfconvert.lora.packed import (
    Blocks,
    FourBit,
    Int8Rows,
    Microscaled,
    Nested,
    Packing,
    Plain,
    read,
)
from hfconvert.readers.json_text import REMOVED, KeyPath
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.dtype import BY_CODE, BY_TORCH, DType

_STATE = re.compile(r"(?P<name>.+)\.quant_state\.bitsandbytes__(nf4|fp4)$")
# Stored tensors of formats that are recognised and not made plain.
_OTHER = {
    ".qweight": "GPTQ or AWQ",
    ".weight_packed": "compressed-tensors",
    ".codebooks": "AQLM",
    ".W_q": "HQQ",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A quantised weight: how it is packed, the dtype to make of it, the stored tensors that go into it."""

    scheme: str
    packing: Packing
    dtype: DType
    stored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plained:
    """The base with plain weights, what its configuration loses, and what was noticed."""

    checkpoint: Checkpoint
    config: Mapping[KeyPath, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def make_plain(
    checkpoint: Checkpoint,
    config: Mapping[str, Any],
    wanted: Literal["refuse", "dequantize"],
    parent: Callable[[], str | None],
    where: Callable[..., str],
) -> Plained:
    """The base as it is where nothing is quantised; plain where the recipe asks for it.

    UserError: exit 2 where the recipe refuses quantised bases, with the name that `parent` gives, if any;
    exit 3 for formats that are not made plain.
    """
    found = dict(_quantized(checkpoint, config))
    others = [
        scheme for end, scheme in _OTHER.items() if any(name.endswith(end) for name in checkpoint)
    ]
    if not found and not others:
        return Plained(checkpoint)
    schemes = sorted({*(one.scheme for one in found.values()), *others})
    if wanted == "refuse":
        subject = where("lora", "base_quantization")
        raise UserError(_refused(schemes, parent(), subject))
    raise_any(_unknown(scheme) for scheme in others)
    entries = dict(_entries(checkpoint, found))
    message = f"{len(found)} weights of {', '.join(schemes)} are made plain: {listed(found, 4)}"
    gone: dict[KeyPath, Any] = {}
    if "quantization_config" in config:
        gone["quantization_config",] = REMOVED
    return Plained(
        checkpoint.with_entries(entries),
        gone,
        (info("lora", "", message, "the result is as large as the model before it was quantised"),),
    )


def _quantized(checkpoint: Checkpoint, config: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    dtype = BY_TORCH.get(str(config.get("dtype", config.get("torch_dtype"))), BY_CODE["BF16"])
    for name in checkpoint:
        state = _STATE.match(name)
        if state:
            yield state["name"], _four_bit(checkpoint, state["name"], name)
        elif name.endswith(".SCB"):
            weight = f"{name.removesuffix('.SCB')}.weight"
            if weight in checkpoint and checkpoint[weight].tensor.spec.dtype.code == "I8":
                yield weight, _int8(checkpoint, weight, name)
        elif name.endswith(".weight_scale_inv"):
            weight = name.removesuffix("_scale_inv")
            if weight in checkpoint and checkpoint[weight].tensor.spec.dtype.code.startswith("F8"):
                yield weight, _fp8(checkpoint, weight, name, config, dtype)
        elif name.endswith("_blocks") and f"{name[:-7]}_scales" in checkpoint:
            scales = f"{name[:-7]}_scales"
            packing = Microscaled(checkpoint[name].tensor, checkpoint[scales].tensor)
            yield name[:-7], Found("mxfp4", packing, dtype, (name, scales))


def _four_bit(checkpoint: Checkpoint, weight: str, state: str) -> Found:
    """Source: `QuantState.as_dict(packed=True)`; the numbers of the state are JSON in a tensor of bytes."""
    facts = json.loads(read(checkpoint[state].tensor).tobytes())
    book, absmax = f"{weight}.quant_map", f"{weight}.absmax"
    stored = [weight, book, absmax, state]
    nested = None
    if f"{weight}.nested_absmax" in checkpoint:
        own = [f"{weight}.nested_quant_map", f"{weight}.nested_absmax"]
        stored += own
        nested = Nested(
            checkpoint[own[0]].tensor,
            checkpoint[own[1]].tensor,
            int(facts["nested_blocksize"]),
            float(facts["nested_offset"]),
        )
    packing = FourBit(
        checkpoint[weight].tensor,
        checkpoint[book].tensor,
        checkpoint[absmax].tensor,
        tuple(facts["shape"]),
        int(facts["blocksize"]),
        nested,
    )
    scheme = f"bitsandbytes {facts['quant_type'].upper()}"
    return Found(scheme, packing, BY_TORCH[facts["dtype"]], tuple(stored))


def _int8(checkpoint: Checkpoint, weight: str, scales: str) -> Found:
    """bitsandbytes computes such layers in float16."""
    extra = f"{weight}_format"
    stored = (weight, scales, *((extra,) if extra in checkpoint else ()))
    packing = Int8Rows(checkpoint[weight].tensor, checkpoint[scales].tensor)
    return Found("bitsandbytes int8", packing, BY_CODE["F16"], stored)


def _fp8(
    checkpoint: Checkpoint, weight: str, scales: str, config: Mapping[str, Any], dtype: DType
) -> Found:
    """The block is what the configuration says, else what the sizes come to."""
    said = (config.get("quantization_config") or {}).get("weight_block_size") or [128, 128]
    packing = Blocks(checkpoint[weight].tensor, checkpoint[scales].tensor, (said[0], said[1]))
    return Found("fp8 in blocks", packing, dtype, (weight, scales))


def _entries(checkpoint: Checkpoint, found: Mapping[str, Found]) -> Iterator[tuple[str, Entry]]:
    """Plain weights in the place of the first of their stored tensors; the others go."""
    taken = {name: weight for weight, one in found.items() for name in one.stored}
    done: set[str] = set()
    for name, entry in checkpoint.items():
        weight = taken.get(name)
        if weight is None:
            yield name, entry
        elif weight not in done:
            done.add(weight)
            one = found[weight]
            sources = tuple(
                source for stored in one.stored for source in checkpoint[stored].sources
            )
            yield weight, Entry(Plain(one.packing, one.dtype), sources, ("dequantize",))


def _refused(schemes: list[str], parent: str | None, subject: str) -> Problem:
    instead = (
        f"take {parent} as the source"
        if parent
        else "take the model before it was quantised as the source"
    )
    return recipe_problem(
        f"the base is quantised: {', '.join(schemes)}",
        why="an update cannot be added to packed weights, and what quantising lost would be merged in",
        do=f"{instead}; or say lora.base_quantization: dequantize",
        subject=subject,
        check="lora",
    )


def _unknown(scheme: str) -> Problem:
    return source_problem(
        f"weights of {scheme} are not made plain",
        why="hfconvert knows 4-bit and int8 of bitsandbytes, fp8 in blocks and mxfp4",
        do="take the model before it was quantised as the source",
        subject="lora.base_quantization",
        check="lora",
    )
