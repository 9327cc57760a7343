"""A family with the values of its options: the steps that it takes, and what was assumed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.findings import Finding, info
from hfconvert.keymap.applied import Where
from hfconvert.keymap.families.table import (
    AT_RUN_TIME,
    FamilyTable,
    Group,
    OptionModel,
    read_table,
    table_from,
)
from hfconvert.recipe.document import Document
from hfconvert.recipe.faults import name_hint, shown
from hfconvert.recipe.placeholders import fill_in, texts
from hfconvert.recipe.steps import Family, FamilyOptions, StepModel

_OPTION = re.compile(r"\$\{options\.([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Values:
    """What the source records: its config.json, and the arguments of the run that wrote it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)

    def find(self, place: str) -> Any:
        """The value at `config.x.y` or `args.x`; None where there is none."""
        root, *rest = place.split(".")
        found: Any = {"config": self.config, "args": self.args}.get(root)
        for part in rest:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class Resolved:
    """The steps of a family for one source, the configuration that belongs to them, what was assumed."""

    name: str
    steps: tuple[StepModel, ...]
    target: tuple[str, ...] | None
    config: Mapping[str, Any]
    findings: tuple[Finding, ...]


def resolve(family: FamilyOptions, values: Values, where: Where) -> Resolved:
    """Look up every option and choose the steps. Each default that is used is a finding.

    UserError (exit 2) for options that the family does not have, and for those that a step needs and
    nothing gives.
    """
    table, document = read_table(family.name, where("name"))
    raise_any(_unknown(family, table, where))
    chosen = {name: _value(name, table.options[name], family, values) for name in table.options}
    found = {name: value for name, (value, _) in chosen.items()}
    used = _used(table, document, found)
    raise_any(_missing(family.name, table, found, used, where))
    raise_any(_not_a_choice(table, found, where))
    findings = [
        _assumed(family.name, name, table.options[name], where())
        for name, (_, assumed) in chosen.items()
        if assumed and name in used
    ]
    given = {name: value for name, value in found.items() if _fits_text(value)}
    filled = table_from(_steps_filled(document, given))
    return Resolved(
        family.name,
        tuple(filled.steps_for(found)),
        table.target,
        _configured(table.config, found),
        tuple(findings),
    )


def _value(
    name: str, option: OptionModel, family: FamilyOptions, values: Values
) -> tuple[Any, bool]:
    """The value of an option, and whether it is the table's default."""
    if name in family.options:
        return family.options[name], False
    for place in option.from_:
        found = values.find(place)
        if found is not None:
            return found, False
    return option.default, True


def _used(table: FamilyTable, document: Document, found: Mapping[str, Any]) -> set[str]:
    """The options that matter: in steps that are taken, in their conditions, in the configuration."""
    names: set[str] = set()
    for number, item in enumerate(table.steps):
        if isinstance(item, Group):
            names.update(item.when, item.unless)
            if not item.applies(found):
                continue
        names.update(_named(document.value["steps"][number]))
    return names | set(_named(table.config))


def _named(value: Any) -> Iterator[str]:
    for _, text in texts(_plain(value)):
        yield from _OPTION.findall(text)


def _plain(value: Any) -> Any:
    """Lists as tuples, as documents have them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _fits_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _steps_filled(document: Document, given: Mapping[str, Any]) -> Document:
    """The document with the options in its steps filled in. Those without a value are in steps not taken."""
    every = {name: f"${{options.{name}}}" for name in document.value.get("options", {})}
    return fill_in(document, {"options": {**every, **given}})


def _configured(config: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with values of any type; keys whose option has none are left out."""
    filled = {key: _replaced(value, found) for key, value in config.items()}
    return {key: value for key, value in filled.items() if value is not None}


def _replaced(value: Any, found: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return _configured(value, found)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_replaced(item, found) for item in value]
    match = _OPTION.fullmatch(value) if isinstance(value, str) else None
    return found[match[1]] if match else value


def _unknown(family: FamilyOptions, table: FamilyTable, where: Where) -> Iterator[Problem]:
    for name in family.options:
        if name not in table.options:
            why, do = name_hint(name, table.options)
            what = f"the family `{family.name}` has no option {shown(name)}"
            yield recipe_problem(what, why=why, do=do, subject=where(name), check="names")


def _missing(
    family: str, table: FamilyTable, found: Mapping[str, Any], used: Iterable[str], where: Where
) -> Iterator[Problem]:
    for name in sorted(used):
        option = table.options.get(name)
        if option is not None and option.required and found[name] is None:
            places = " or ".join(f"`{place}`" for place in option.from_) or "nothing"
            yield recipe_problem(
                f"the geometry is missing: `{name}` of the family `{family}` ({option.about})",
                why=f"{places} would give it, and the source does not have it",
                do=f"write it: family: {{name: {family}, {name}: ...}}",
                subject=where(),
                check="names",
            )


def _not_a_choice(table: FamilyTable, found: Mapping[str, Any], where: Where) -> Iterator[Problem]:
    for name, value in found.items():
        choices = table.options[name].choices
        if choices is not None and value not in choices:
            listed = ", ".join(map(str, choices))
            yield recipe_problem(
                f"`{name}` cannot be {shown(value)}",
                why=table.options[name].about,
                do=f"use one of: {listed}",
                subject=where(name),
                check="names",
            )


def _assumed(family: str, name: str, option: OptionModel, subject: str) -> Finding:
    message = f"{family}: `{name}` is taken as {shown(option.default)} ({option.about})"
    hint = f"write `{name}` beside the family's name if it is another"
    return info("names", subject, message, hint)


def canonical(
    key_map: Iterable[StepModel], values: Values, where: Callable[..., str]
) -> list[dict[str, Any]]:
    """The steps as plain values for the digest: a family with all that its table says for this source."""
    found = []
    for number, step in enumerate(key_map):
        document = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if isinstance(step, Family) and step.family.name not in AT_RUN_TIME:
            resolved = resolve(step.family, values, partial(where, "key_map", number, "family"))
            document["steps"] = [
                inner.model_dump(mode="json", by_alias=True) for inner in resolved.steps
            ]
        found.append(document)
    return found


def family_config(
    key_map: Iterable[StepModel], values: Values, where: Callable[..., str]
) -> dict[str, Any]:
    """The config.json that the families of a key map give, for a source that has none."""
    found: dict[str, Any] = {}
    for number, step in enumerate(key_map):
        if isinstance(step, Family) and step.family.name not in AT_RUN_TIME:
            below = partial(where, "key_map", number, "family")
            found |= resolve(step.family, values, below).config
    return found
