"""What the checks that need a model class have to know of a conversion, whoever made it: no values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hfconvert.dtypes.cast import Cast
from hfconvert.keymap.prefixes import WRAPPERS, Prefixes
from hfconvert.lora.adapter import Adapter
from hfconvert.lora.settings import ADAPTER_CONFIG
from hfconvert.planning.plan import Plan
from hfconvert.readers.config import CONFIG
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.leaf import Leaf

Way = Literal["kept", "cast", "made"]

_WRAPPERS = Prefixes.of(WRAPPERS)


class AdapterAt(NamedTuple):
    """An adapter of a merge: its folder, its weight in the sum, its configuration if that was lost."""

    folder: Path
    weight: float
    config: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, adapter: Adapter) -> AdapterAt:
        """Where PEFT finds it."""
        if (adapter.root / ADAPTER_CONFIG).is_file():
            return cls(adapter.root, adapter.weight)
        known = adapter.settings.method.fields
        values = {
            name: one for name, one in adapter.settings.values.items() if one and name in known
        }
        return cls(adapter.root, adapter.weight, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A source and what came of it.

    `config` is that of the result, `config_folder` where it lies, with the code that belongs to it; `specs`
    are those of the result, `tied` the names that it stores under another one, `dropped` those that a rule
    left out, without wrappers. `same_names`: every tensor has the source's name; `renamed`: some have
    another one, wrappers apart. `way` is what became of values at most: kept bit for bit in their places,
    cast there, or made anew out of others.
    """

    source: Path
    config: Mapping[str, Any] | None
    config_folder: Path
    specs: Mapping[str, TensorSpec]
    tied: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    same_names: bool
    renamed: bool
    way: Way
    adapters: tuple[AdapterAt, ...] = ()


def conversion_of(planned: Plan) -> Conversion:
    """The conversion that a plan describes: nothing but headers was read for it."""
    placed = [one for shard in planned.shards for one in shard.tensors]
    config, folder = _config(planned)
    specs = {one.name: one.entry.tensor.spec for one in placed}
    return Conversion(
        source=Path(planned.path),
        config=config,
        config_folder=folder,
        specs=specs,
        tied=frozenset(tie.dropped for tie in planned.ties) - specs.keys(),
        dropped=frozenset(without_wrappers(one.name) for one in planned.dropped),
        same_names=all(one.name in one.entry.sources for one in placed),
        renamed=any(
            one.name not in one.entry.sources
            and one.name not in map(without_wrappers, one.entry.sources)
            for one in placed
        ),
        way=way_of(one.entry.tensor for one in placed),
        adapters=tuple(map(AdapterAt.of, planned.merges.adapters)),
    )


def without_wrappers(name: str) -> str:
    """A name without what `module.` and the like put into it."""
    return _WRAPPERS.take_off(name).name


def way_of(tensors: Iterable[LazyTensor]) -> Way:
    """What becomes of the values of these tensors at most."""
    ways = {_way(tensor) for tensor in tensors}
    return "made" if "made" in ways else "cast" if "cast" in ways else "kept"


def read_object(content: bytes) -> Mapping[str, Any] | None:
    """The JSON object of a file, None where it holds none."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _way(tensor: LazyTensor) -> Way:
    if isinstance(tensor, Leaf):
        return "kept"
    return "cast" if isinstance(tensor, Cast) and isinstance(tensor.inner, Leaf) else "made"


def _config(planned: Plan) -> tuple[Mapping[str, Any] | None, Path]:
    """The configuration as it will be written, and the folder of the source's."""
    for one in planned.rewritten:
        if one.source.name == CONFIG:
            return read_object(one.content), one.source.path.parent
    for copy in planned.copies:
        if copy.name == CONFIG:
            return read_object(copy.path.read_bytes()), copy.path.parent
    for text in planned.texts:
        if text.file == CONFIG:
            return read_object(text.content), Path(planned.path)
    return None, Path(planned.path)
