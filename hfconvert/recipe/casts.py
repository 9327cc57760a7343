"""`dtype`: what each tensor is cast to."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, StrictStr
from pydantic_core import CoreSchema, core_schema

from hfconvert.recipe.faults import RefusedError, name_hint, shown
from hfconvert.recipe.model import Model, Text, holds_placeholder

KEEP = "keep"

_SHORT_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
# The exponent of a shared scale, not a number that a weight could be: there is no cast to it.
_NO_TARGETS = {"float8_e8m0fnu"}


def cast_targets() -> list[str]:
    """`keep`, and torch's names of the floating types that a cast can make."""
    from hfconvert.tensors.dtype import BY_TORCH  # noqa: PLC0415 - numpy; most recipes keep

    floats = [name for name, dtype in BY_TORCH.items() if dtype.kind == "float" and dtype.stored]
    return [KEEP, *(name for name in floats if name not in _NO_TARGETS)]


def _target(name: str) -> str:
    if name == KEEP or holds_placeholder(name):
        return name
    targets = cast_targets()
    if name in targets:
        return name
    bare = name.removeprefix("torch.")
    bare = _SHORT_NAMES.get(bare.lower(), bare)
    why, do = name_hint(bare, targets)
    raise RefusedError(
        f"{shown(name)} is not a floating dtype that a cast can make", why=why, do=do
    )


def _target_schemas() -> list[dict[str, Any]]:
    placeholder = {"type": "string", "pattern": r"\$\{[^}]+\}"}
    return [{"type": "string", "enum": cast_targets()}, placeholder]


class _Target:
    """Validates a name, and lists the names in the schema when one is asked for."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        schema: CoreSchema = handler(source)
        return core_schema.no_info_after_validator_function(_target, schema)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": _target_schemas()}


Target = Annotated[StrictStr, _Target]
"""`keep`, or torch's name of a floating dtype."""


class Dtype(Model):
    """The dtype of every tensor: by the first rule whose pattern matches its name, else the default.

    Written as one name, or as `{default, rules}`. Only floating tensors are cast.
    """

    default: Target = Field(KEEP, description="The dtype of what no rule matches.")
    rules: dict[Text, Target] = Field(
        default_factory=dict, description="dtype by pattern; the first match wins."
    )

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is cast."""
        return {self.default, *self.rules.values()} == {KEEP}


def _from_name(value: Any) -> Any:
    return {"default": value} if isinstance(value, str) else value


class _OrName:
    """Says in the schema that a name may stand for the mapping."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [*_target_schemas(), handler(schema)]}


DtypeField = Annotated[Dtype, BeforeValidator(_from_name), _OrName]
"""`dtype` in either form."""
