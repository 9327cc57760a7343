"""Adapters for several parts of a pipeline: which of them the source is, and what is left to the others."""

from __future__ import annotations

from collections.abc import Iterator

from hfconvert.findings import Finding, warning
from hfconvert.lora.adapter import Adapter, Part
from hfconvert.lora.base import Base
from hfconvert.lora.kohya import unflatten
from hfconvert.lora.renames import find_names


def parts_of_source(adapter: Adapter, base: Base) -> tuple[str, list[Part]]:
    """Which part of a pipeline the source is, and the parts of the adapter for it.

    What is for other parts of the pipeline is left to them, and that is said.
    """
    parts = list(adapter.parts)
    if adapter.naming == "kohya":
        parts = unflatten(parts, base.modules)
    components = dict.fromkeys(part.component for part in parts)
    if len(components) < 2:
        return next(iter(components), ""), parts
    names = {
        one: find_names((part.module for part in parts if part.component == one), base.knows)
        for one in components
    }
    best = max(components, key=lambda one: len(names[one]))
    return best, [part for part in parts if part.component in ("", best)]


def said_of_components(adapter: Adapter, parts: list[Part]) -> Iterator[Finding]:
    """That tensors are for another part of the pipeline than the one that is converted."""
    kept = {part.component for part in parts}
    left = [part for part in adapter.parts if part.component not in kept]
    for component in dict.fromkeys(part.component for part in left):
        count = sum(len(part.tensors) for part in left if part.component == component)
        message = (
            f"{count} tensors are for `{component}`, which is not this source; they are not merged"
        )
        yield warning(
            "lora", adapter.label, message, "merge them into that part in a run of its own"
        )
