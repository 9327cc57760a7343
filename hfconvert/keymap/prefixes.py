"""Names without what a wrapper or an outer module put before them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

# What torch's DistributedDataParallel and DataParallel, torch.compile, DeepSpeed, torch's FSDP and its
# activation checkpointing put into the names of a state dict, at the front or before any submodule.
WRAPPERS = (
    "module.",
    "_orig_mod.",
    "_forward_module.",
    "_fsdp_wrapped_module.",
    "_checkpoint_wrapped_module.",
)


class Taken(NamedTuple):
    """The prefixes that were taken off a name: from its front, and from inside."""

    front: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.front, *self.inside)))


class Stripped(NamedTuple):
    """A name without its prefixes, and what was taken off."""

    name: str
    taken: Taken


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Prefixes to take off: `plain` once, from the front; `wrappers` wherever a dotted part begins."""

    plain: tuple[str, ...]
    wrappers: tuple[str, ...]

    @classmethod
    def of(cls, prefixes: Iterable[str]) -> Prefixes:
        """Sort a list of prefixes into the two kinds; of two plain ones, the longer is tried first."""
        wanted = set(prefixes)
        plain = sorted(wanted.difference(WRAPPERS), key=len, reverse=True)
        return cls(tuple(plain), tuple(one for one in WRAPPERS if one in wanted))

    def take_off(self, name: str) -> Stripped:
        """The name without them, in whatever order they stand."""
        left = [*self.plain, *self.wrappers]
        front: list[str] = []
        inside: list[str] = []
        while True:
            while name.startswith(tuple(left)):
                prefix = next(prefix for prefix in left if name.startswith(prefix))
                name = name[len(prefix) :]
                front.append(prefix)
                if prefix not in self.wrappers:
                    left.remove(prefix)
            found = [wrapper for wrapper in self.wrappers if f".{wrapper}" in name]
            if not found:
                return Stripped(name, Taken(tuple(front), tuple(inside)))
            inside += found
            name = re.sub(rf"(?<=\.)(?:{'|'.join(map(re.escape, found))})", "", name)
