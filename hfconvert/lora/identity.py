"""Whether the base is the one that an adapter says it was trained on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from hfconvert.errors import Problem, recipe_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.lora.adapter import Adapter

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def other_bases(
    adapters: Iterable[Adapter], accepted: str | None, source: str | None, where: Callable[..., str]
) -> Iterator[Problem]:
    """Adapters that record another id on the Hub than the source's, or than the recipe accepts (exit 2).

    A record that is a local path, or none, is no identity.
    """
    for adapter in adapters:
        yield from _other(adapter, accepted, source, where)


def said_of_bases(
    adapters: Iterable[Adapter], accepted: str | None, source: str | None
) -> Iterator[Finding]:
    """What each adapter records of its base, beside the source."""
    for adapter in adapters:
        yield from _said(adapter, accepted, source)


def recorded_base(adapter: Adapter) -> str | None:
    """The base that the configuration records, None where it is silent."""
    value = adapter.settings.get("base_model_name_or_path")
    return value if isinstance(value, str) and value else None


def _is_id(record: str | None) -> bool:
    return record is not None and bool(_HUB_ID.fullmatch(record))


def _other(
    adapter: Adapter, accepted: str | None, source: str | None, where: Callable[..., str]
) -> Iterator[Problem]:
    record = recorded_base(adapter)
    if not _is_id(record) or source is None or record in (source, accepted):
        return
    yield recipe_problem(
        f"{adapter.label} was trained on {record}, the source is {source}",
        why="its adapter_config.json says so; on another base the result is a model that nobody trained",
        do=f"take {record} as the source, or accept it with lora.base: {record}",
        subject=where("lora", "base"),
        check="lora",
    )


def _said(adapter: Adapter, accepted: str | None, source: str | None) -> Iterator[Finding]:
    record = recorded_base(adapter)
    if record is None:
        message = "its configuration does not say which base it was trained on"
        yield warning("lora", adapter.label, message, "names and shapes decide")
    elif not _is_id(record):
        message = (
            f"its configuration records the local path {record} as its base, which is no identity"
        )
        yield info("lora", adapter.label, message, "names and shapes decide")
    elif record == source:
        yield info("lora", adapter.label, f"trained on {record}, which is the source")
    elif source is None and record != accepted:
        message = (
            f"trained on {record}; whether the local source is that model, names and shapes decide"
        )
        yield info("lora", adapter.label, message)
    else:
        message = f"trained on {record}, which the recipe accepts for this source"
        yield info("lora", adapter.label, message)
