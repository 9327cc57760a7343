"""The steps of `key_map`: each is a mapping with exactly one key, which names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
)

from hfconvert.recipe.faults import RefusedError, name_hint, shown
from hfconvert.recipe.model import Count, Dim, Model, Shape, Table, Text, Texts

Layout = Literal["interleaved", "blocked"]


def _option(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    raise RefusedError(
        f"must be text, a number, true or false, not {shown(value)}", do="write one value"
    )


def _three_tag(value: Any) -> str:
    return "is:three" if isinstance(value, tuple) else "is:one"


def _join_tag(value: Any) -> str:
    return "is:word" if isinstance(value, str) else "is:dim"


Option = Annotated[
    bool | int | float | str | None,
    PlainValidator(_option),
    Shape({"type": ["boolean", "number", "string", "null"]}),
]
"""What a family takes beside its name."""

OneOrThree = Annotated[
    Annotated[Text, Tag("is:one")]
    | Annotated[tuple[Text, ...], Field(min_length=3, max_length=3), Tag("is:three")],
    Discriminator(_three_tag),
]
"""The fused name, or those of query, key and value."""

JoinTo = Annotated[
    Annotated[Dim, Tag("is:dim")] | Annotated[Literal["replicated"], Tag("is:word")],
    Discriminator(_join_tag),
]
"""The dimension along which ranks hold slices, or that all hold the same."""


class StepModel(Model):
    """One step; its only field has the step's name."""

    @property
    def name(self) -> str:
        """The step's name, as the recipe writes it."""
        return next(iter(type(self).model_fields))


class FamilyOptions(Model):
    """A family's table of steps, by name, with whatever options it takes beside the name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Option]  # type: ignore[mutable-override]  # how pydantic types extras

    name: Text = Field(description="The family: megatron-llama, ...")

    @property
    def options(self) -> Mapping[str, Option]:
        """What stands beside the name."""
        return self.__pydantic_extra__ or {}


class SplitOptions(Model):
    """One tensor into equal parts along a dimension."""

    from_: Text = Field(alias="from", description="Pattern of the tensor to split.")
    into: Annotated[tuple[Text, ...], Field(min_length=2)] = Field(
        description="Names of the parts, in order."
    )
    dim: Dim = Field(0, description="The dimension to split.")


class ConcatOptions(Model):
    """Several tensors into one along a dimension."""

    from_: Annotated[tuple[Text, ...], Field(min_length=2)] = Field(
        alias="from", description="Patterns of the tensors, in order."
    )
    into: Text = Field(description="Name of the result.")
    dim: Dim = Field(0, description="The dimension along which they are put together.")


class StackOptions(Model):
    """Tensors that a number tells apart into one with a new dimension; or back."""

    from_: Text = Field(alias="from", description="Pattern of what is read.")
    into: Text = Field(description="Name of what is made.")
    dim: Dim = Field(0, description="The dimension that the number becomes, or came from.")


class QkvOptions(Model):
    """Query, key and value out of one tensor, or into one: one side is a name, the other three."""

    from_: OneOrThree = Field(alias="from", description="What is read.")
    into: OneOrThree = Field(description="What is made.")
    layout: Layout = Field(
        description="interleaved: by key-value group; blocked: all queries, all keys, all values."
    )
    heads: Count | None = Field(None, description="Attention heads.")
    kv_heads: Count | None = Field(None, description="Key-value heads; default: as many as heads.")
    gate: bool = Field(
        default=False,
        description="Each head's query has as many rows again behind it, which gate the output.",
    )


class PermuteRopeOptions(Model):
    """The rows of rotary projections put into the other order."""

    names: Texts = Field(description="Patterns of the projections.")
    heads: Count = Field(description="Heads that each of them holds.")
    to: Literal["half", "interleaved"] = Field(description="The order that results.")


class Rename(StepModel):
    """Names by pattern; the first pattern that matches wins."""

    rename: Table = Field(description="New name by pattern of the old.")


class StripPrefix(StepModel):
    """Prefixes removed from the front of names."""

    strip_prefix: Texts = Field(description="Prefixes, in any order: [module., _orig_mod.]")


class AddPrefix(StepModel):
    """A prefix put in front of every name."""

    add_prefix: Text = Field(description='The prefix: "model."')


class Drop(StepModel):
    """Tensors left out, by pattern."""

    drop: Texts = Field(description="Patterns of the tensors to leave out.")


class Join(StepModel):
    """Slices of ranks joined along a dimension, or checked to be the same."""

    join: Annotated[dict[Text, JoinTo], Field(min_length=1)] = Field(
        description="By pattern: the dimension, or replicated."
    )


class Split(StepModel):
    """One tensor into several."""

    split: SplitOptions


class Concat(StepModel):
    """Several tensors into one."""

    concat: ConcatOptions


class Stack(StepModel):
    """Numbered tensors into one with a new dimension."""

    stack: StackOptions


class Unstack(StepModel):
    """One tensor into numbered ones along a dimension."""

    unstack: StackOptions


class Transpose(StepModel):
    """The two dimensions of matrices swapped."""

    transpose: Texts = Field(description="Patterns of the matrices.")


class Qkv(StepModel):
    """Query, key and value split or fused."""

    qkv: QkvOptions


class PermuteRope(StepModel):
    """Rotary projections reordered."""

    permute_rope: PermuteRopeOptions


class Resize(StepModel):
    """The vocabulary cut or padded to a number of rows."""

    resize: Annotated[dict[Text, Count], Field(min_length=1)] = Field(
        description="Number of rows by pattern."
    )


class Tie(StepModel):
    """Names left out because they hold what another holds, which is checked."""

    tie: Table = Field(description="The name that is kept, by the name that is left out.")


class Untie(StepModel):
    """Names that get a copy of what another holds."""

    untie: Table = Field(description="The name that is copied, by the name that is made.")


class Dequantize(StepModel):
    """Quantised tensors as floating ones."""

    dequantize: Texts = Field(description="Patterns of the tensors.")


class Densify(StepModel):
    """Sparse tensors as dense ones."""

    densify: Texts = Field(description="Patterns of the tensors.")


class Family(StepModel):
    """The steps of a family's table."""

    family: FamilyOptions


STEPS: Mapping[str, type[StepModel]] = {
    "rename": Rename,
    "strip_prefix": StripPrefix,
    "add_prefix": AddPrefix,
    "drop": Drop,
    "join": Join,
    "split": Split,
    "concat": Concat,
    "stack": Stack,
    "unstack": Unstack,
    "transpose": Transpose,
    "qkv": Qkv,
    "permute_rope": PermuteRope,
    "resize": Resize,
    "tie": Tie,
    "untie": Untie,
    "dequantize": Dequantize,
    "densify": Densify,
    "family": Family,
}


def _step(value: Any) -> Any:
    if not isinstance(value, dict):
        raise RefusedError(
            f"a step is a mapping with one key, not {shown(value)}",
            do='write the step\'s name and what it takes: drop: ["*.attn.bias"]',
        )
    if len(value) != 1:
        raise RefusedError(
            f"a step is a mapping with exactly one key; this has {len(value)}"
            + (f": {', '.join(map(shown, value))}" if value else ""),
            why="two steps under one dash, or options that are not indented below their step",
            do="give every step a dash of its own, and indent its options below its name",
        )
    (name,) = value
    if name not in STEPS:
        why, do = name_hint(name, STEPS)
        raise RefusedError(f"there is no step {shown(name)}", why=why, do=do)
    return value


def _tag(value: Any) -> str:
    return f"is:{next(iter(value))}" if isinstance(value, dict) else f"is:{value.name}"


Step = Annotated[
    Annotated[Rename, Tag("is:rename")]
    | Annotated[StripPrefix, Tag("is:strip_prefix")]
    | Annotated[AddPrefix, Tag("is:add_prefix")]
    | Annotated[Drop, Tag("is:drop")]
    | Annotated[Join, Tag("is:join")]
    | Annotated[Split, Tag("is:split")]
    | Annotated[Concat, Tag("is:concat")]
    | Annotated[Stack, Tag("is:stack")]
    | Annotated[Unstack, Tag("is:unstack")]
    | Annotated[Transpose, Tag("is:transpose")]
    | Annotated[Qkv, Tag("is:qkv")]
    | Annotated[PermuteRope, Tag("is:permute_rope")]
    | Annotated[Resize, Tag("is:resize")]
    | Annotated[Tie, Tag("is:tie")]
    | Annotated[Untie, Tag("is:untie")]
    | Annotated[Dequantize, Tag("is:dequantize")]
    | Annotated[Densify, Tag("is:densify")]
    | Annotated[Family, Tag("is:family")],
    Discriminator(_tag),
    BeforeValidator(_step),
]
"""One step of a key map."""
