"""What the class of the base calls the modules of its files, where files have older names than the class.

transformers renames modules in memory and keeps the names in files, so that an adapter may name modules that
no file has. Its own registry tells them, asked in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hfconvert.findings import Finding, info
from hfconvert.keymap.families.registry import ask, missing
from hfconvert.lora.base import Base
from hfconvert.lora.pieces import Piece, pieces_of
from hfconvert.lora.renames import find_names

_SHOWN = 3


@dataclass
class ClassNames:
    """The modules of a base by the names of its class; asked for once, and only when they are needed."""

    base: Base

    @cached_property
    def recipes(self) -> dict[str, list[Any]]:
        """Modules as the class calls them, to how transformers makes their weights of those in the files.

        Empty where the configuration names no class, and where transformers is not installed or does not
        know it.
        """
        base = self.base
        if missing() or not (base.config.get("model_type") and base.config.get("architectures")):
            return {}
        answered = ask({"config": dict(base.config), "tensors": self._shapes, "to": "v5"})
        weights = answered.get("tensors", {}).items()
        return {
            name.removesuffix(".weight"): recipe
            for name, recipe in weights
            if name.endswith(".weight")
        }

    @cached_property
    def names(self) -> dict[str, str]:
        """Modules as the class calls them, to those of the files that are the same, weight for weight."""
        whole = {
            name: str(one) for name, (kind, *_, one) in self.recipes.items() if kind == "source"
        }
        return {
            name: one.removesuffix(".weight")
            for name, one in whole.items()
            if one.endswith(".weight")
        }

    def of(self, lost: Iterable[str]) -> dict[str, str]:
        """Of modules that no file has by their names, those of the class, with their names in the files."""
        modules = list(lost)
        found = find_names(modules, self.names.__contains__) if modules else {}
        whole = {module: self.names[name] for module, (name, _) in found.items()}
        rest = {module: self._beside(module) for module in modules if module not in whole}
        return whole | {module: name for module, name in rest.items() if name is not None}

    def _beside(self, module: str) -> str | None:
        """The name in the files of a module of several weights (a stack of experts), by its neighbours'."""
        parent, _, last = module.rpartition(".")
        for name, other in self.names.items():
            inner = name.removeprefix(parent)
            if inner != name and inner.startswith(".") and other.endswith(inner):
                found = f"{other.removesuffix(inner)}.{last}"
                if self.base.has_module(found):
                    return found
        return None

    @cached_property
    def pieces(self) -> dict[str, list[Piece]]:
        """Of the other modules that are matters of rows, where the rows of the weight are in the files."""
        rest = {name: one for name, one in self.recipes.items() if name not in self.names}
        found = {name: pieces_of(recipe, self._shapes) for name, recipe in rest.items()}
        return {name: pieces for name, pieces in found.items() if pieces}

    def pieces_named(self, lost: Iterable[str]) -> dict[str, str]:
        """Of modules that no file has, those that files hold in pieces, with the names of the class."""
        modules = list(lost)
        found = find_names(modules, self.pieces.__contains__) if modules else {}
        return {module: name for module, (name, _) in found.items()}

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        names = (*self.base.checkpoint, *self.base.ties)
        return {name: self.base.shape(name) for name in names}

    def hold(self, modules: Iterable[str]) -> bool:
        """Whether the class is known and these modules of the files are all modules of it, and no pieces."""
        return bool(self.names) and set(modules) <= set(self.names.values())


def said_of_class_names(found: Mapping[str, str], adapter: str) -> Iterator[Finding]:
    """That modules of an adapter were found by the names of the class."""
    if found:
        pairs = [f"`{name}` -> `{other}`" for name, other in found.items()][:_SHOWN]
        rest = " and others" if len(found) > _SHOWN else ""
        message = f"{len(found)} modules have other names in the files of the base, by transformers itself"
        yield info("lora", adapter, f"{message}: {', '.join(pairs)}{rest}")
