"""A part of an adapter at its place in the base, and what all kinds of updates ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hfconvert.errors import Problem, source_problem
from hfconvert.lora.adapter import Adapter, Part
from hfconvert.lora.base import Base
from hfconvert.lora.embeddings import HEAD, INPUT
from hfconvert.lora.rules import is_saved, pattern_value
from hfconvert.lora.settings import Settings
from hfconvert.lora.terms import Kind, Term
from hfconvert.tensors.lazy import LazyTensor

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A tensor of the adapter that takes the place of one of the base.

    `trained` says that it was trained by itself; else it is the base as it was when the adapter was trained.
    """

    tensor: LazyTensor
    name: str  # in the adapter's file
    adapter: str
    trained: bool
    tied: bool = False  # the adapter kept input embedding and head one tensor


@dataclass(slots=True)
class Share:
    """Updates by the name of the tensor, tensors that take the place of others, and what is wrong.

    `used` are the adapter's parameters that were understood.
    """

    terms: list[tuple[str, Term]] = field(default_factory=list)
    replaced: dict[str, Replacement] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of an adapter, and the module of the base that it belongs to."""

    part: Part
    module: str
    adapter: Adapter
    base: Base
    peft_version: str | None = None
    largest: tuple[int, int] | None = (
        None  # [out, in] over all the modules that the adapter changes
    )

    @property
    def is_saved(self) -> bool:
        """Whether the module, or one around it, was trained whole."""
        return is_saved(self.settings, self.part.module)

    @property
    def is_embedding(self) -> bool:
        """Whether the name speaks of an input embedding or a head."""
        return bool(INPUT.search(f"{self.module}.weight") or HEAD.search(f"{self.module}.weight"))

    @property
    def biases_trained(self) -> bool:
        """Whether biases of the base were trained, which are stored among the base's tensors."""
        return bool(self.settings.get("bias", "none") != "none")

    @property
    def settings(self) -> Settings:
        """The adapter's configuration."""
        return self.adapter.settings

    @property
    def weight(self) -> str | None:
        """The name of the module's weight in the base."""
        return self.base.weight_of(self.module)

    def tensor(self, parameter: str) -> LazyTensor:
        """One of the adapter's tensors."""
        return self.part.tensors[parameter]

    def shape(self, parameter: str) -> Shape:
        """The shape of one of the adapter's tensors."""
        return self.part.tensors[parameter].spec.shape

    def find(self, *parameters: str) -> str | None:
        """The first of these parameters that the adapter has, with or without `.weight`."""
        for name in parameters:
            for full in (name, f"{name}.weight"):
                if full in self.part.tensors:
                    return full
        return None

    def pair(self, share: Share, one: str, other: str) -> tuple[str, str] | None:
        """Both parameters where the adapter has them; half a pair is a problem of the share."""
        first, second = self.find(one), self.find(other)
        share.used |= {name for name in (first, second) if name}
        if first is not None and second is not None:
            return first, second
        if first is not None or second is not None:
            what = f"{first or second} is there without its other half"
            why = "tensors were lost when the adapter was saved"
            share.problems.append(self.problem(what, why=why, do="fetch the adapter again"))
        return None

    def problem(self, what: str, *, why: str, do: str) -> Problem:
        """A problem of this module."""
        subject = f"{self.adapter.label}: {self.part.module}"
        return source_problem(what, why=why, do=do, subject=subject, check="lora")

    def term(
        self,
        kind: Kind,
        tensors: Mapping[str, LazyTensor],
        parameter_name: str = "",
        **numbers: Any,
    ) -> Term:
        """A term of this place, with alpha as the file or the configuration has it."""
        default = self.settings.get("lora_alpha", self.settings.get("alpha", 8))
        patterns = self.settings.get("alpha_pattern")
        alpha = pattern_value(patterns, self.part.module + parameter_name, default)
        return Term(
            kind=kind,
            adapter=self.adapter.label,
            module=self.part.module,
            tensors=tensors,
            settings=self.settings,
            alpha=float(alpha if self.part.alpha is None else self.part.alpha),
            weight=self.adapter.weight,
            recorded=self.part.alpha is not None,
            **numbers,
        )

    def rank(self, share: Share, stored: int, parameter_name: str = "") -> int:
        """The rank of the tensors; a problem of the share where the configuration has another.

        `parameter_name` is what patterns see behind the module's name, for a parameter that is a target.
        """
        patterns, default = self.settings.get("rank_pattern"), self.settings.get("r", 8)
        configured = pattern_value(patterns, self.part.module + parameter_name, default)
        if stored != configured and self.part.alpha is None:
            what = f"the configuration says rank {configured}, the tensors have rank {stored}"
            why = "the configuration is of another run; its lora_alpha is then in doubt too"
            do = (
                "fetch the adapter's own adapter_config.json, or remove it and give lora.lora_alpha"
            )
            share.problems.append(self.problem(what, why=why, do=do))
        return stored


def orientation(place: Place, shape: Shape, given: tuple[int, int]) -> bool | None:
    """Whether a weight of that shape is [in, out], for an update [out, in]; None where neither fits."""
    if len(shape) != 2:
        return None
    if shape[0] != shape[1]:
        return False if given == shape else True if given == shape[::-1] else None
    if given != shape:
        return None
    known = place.base.stores_transposed(place.module)
    return bool(place.settings.get("fan_in_fan_out")) if known is None else known


OTHER = "the adapter was trained on another model"
GIVE = "give the base that it was trained on"
