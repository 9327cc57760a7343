"""Match an adapter with its base: every tensor is used and every target has tensors, or it is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hfconvert.errors import Problem, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.lora.adapter import Adapter, Part
from hfconvert.lora.base import Base, count_families
from hfconvert.lora.class_names import ClassNames, said_of_class_names
from hfconvert.lora.components import parts_of_source, said_of_components
from hfconvert.lora.embeddings import HEAD, INPUT
from hfconvert.lora.expert_shares import parameters_of
from hfconvert.lora.methods import NOT_STORED
from hfconvert.lora.pieces import share_of_pieces
from hfconvert.lora.place import Place, Replacement, Share
from hfconvert.lora.renames import IDENTITY, Rename, find_names
from hfconvert.lora.rules import ALL_LINEAR, is_saved, is_target, is_target_parameter
from hfconvert.lora.settings import Settings
from hfconvert.lora.shares import share_of
from hfconvert.lora.terms import Term


@dataclass(frozen=True, slots=True)
class Matched:
    """What one adapter does to the base: updates and replacements by the name of the tensor.

    `touched` and `targeted` are modules of the base, as the files call them.
    """

    adapter: Adapter
    terms: Mapping[str, tuple[Term, ...]]
    replaced: Mapping[str, Replacement]
    touched: tuple[str, ...]
    targeted: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Collected:
    terms: dict[str, list[Term]] = field(default_factory=dict)
    replaced: dict[str, Replacement] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # modules with tensors, be they right or not

    def take(self, module: str, share: Share) -> None:
        for name, term in share.terms:
            self.terms.setdefault(name, []).append(term)
        self.replaced |= share.replaced
        self.problems += share.problems
        self.seen.add(module)
        if share.terms or share.replaced:
            self.touched.append(module)

    def take_pieces(self, share: Share) -> None:
        """Take a share of tensors that hold other modules as well: it says nothing of whole modules."""
        for name, term in share.terms:
            self.terms.setdefault(name, []).append(term)
            self.touched.append(name.rpartition(".")[0])
        self.problems += share.problems


def match(adapter: Adapter, base: Base, peft_version: str | None = None) -> Matched:
    """Find the place of every tensor. Everything that is wrong is in `problems`."""
    component, parts = parts_of_source(adapter, base)
    adapter = adapter.of_component(component)
    parts += _dealt(adapter, base, parts)
    names = find_names((part.module for part in parts), base.knows)
    classed = ClassNames(base)
    others = classed.of(part.module for part in parts if _is_lost(part, names, adapter))
    names |= {module: (other, IDENTITY) for module, other in others.items()}
    joined = classed.pieces_named(part.module for part in parts if _is_lost(part, names, adapter))
    collected, lost = _Collected(), []
    largest = _largest(base, [module for module, _ in names.values()])
    general = _commonest(rename for _, rename in names.values())
    for part in parts:
        if part.module in names:
            module = names[part.module][0]
        elif part.module in joined:
            place = Place(part, part.module, adapter, base, peft_version)
            collected.take_pieces(share_of_pieces(place, classed.pieces[joined[part.module]]))
            continue
        elif _is_new(part, adapter):
            module = general(part.module) or part.module
        else:
            lost.append(part)
            continue
        place = Place(part, module, adapter, base, peft_version, largest)
        collected.take(base.owner_of(module), share_of(place))
    renames = [rename for _, rename in names.values()]
    targeted = _targeted(adapter, base, renames, ((one, one) for one in base.modules))
    if (others or joined or set(targeted) - collected.seen) and classed.hold(collected.seen):
        targeted = _targeted(adapter, base, renames, classed.names.items())
    absent = [module for module in targeted if module not in collected.seen]
    if joined:
        given = set(joined.values())
        rest = (name for name in classed.pieces if name not in given)
        absent += [name for name in rest if is_target(adapter.settings, name)]
    problems = [
        *_unused(lost, adapter, base),
        *_without_tensors(absent, adapter),
        *_unsaved(adapter, parts),
        *collected.problems,
    ]
    return Matched(
        adapter,
        {name: tuple(terms) for name, terms in collected.terms.items()},
        collected.replaced,
        tuple(collected.touched),
        tuple(targeted),
        tuple(problems),
        (
            *_said_of_renames(names, adapter),
            *said_of_class_names(others, adapter.label),
            *said_of_components(adapter, parts),
            *_said_of_what_is_not_stored(adapter),
        ),
    )


def _dealt(adapter: Adapter, base: Base, parts: Sequence[Part]) -> list[Part]:
    """Modules that have no tensors of their own, where PEFT deals out shared ones to all the targets."""
    settings = adapter.settings
    if not settings.method.whole or any(
        set(part.tensors) & settings.method.parameters for part in parts
    ):
        return []
    weights = {module: base.weight_of(module) for module in base.modules}
    return [
        Part(module, {}, {})
        for module, name in weights.items()
        if name is not None
        and len(base.shape(name)) == 2
        and not (INPUT.search(name) or HEAD.search(name))
        and is_target(settings, module)
    ]


def _largest(base: Base, modules: Iterable[str]) -> tuple[int, int] | None:
    """The largest sizes of the linear layers among the modules, each dimension by itself."""
    weights = [name for name in map(base.weight_of, modules) if name is not None]
    shapes = [shape for shape in map(base.shape, weights) if len(shape) == 2]
    return (max(one for one, _ in shapes), max(two for _, two in shapes)) if shapes else None


def _commonest(renames: Iterable[Rename]) -> Rename:
    known = list(renames)
    return max(known, key=known.count) if known else IDENTITY


def _is_new(part: Part, adapter: Adapter) -> bool:
    """Whether this is a module that was trained whole and that the base lacks, such as a classifier."""
    if any(name.partition(".")[0] not in ("weight", "bias") for name in part.tensors):
        return False
    task = str(adapter.settings.get("task_type", ""))
    heads = ("classifier", "score") if task in ("SEQ_CLS", "TOKEN_CLS") else ()
    last = part.module.rpartition(".")[2]
    return is_saved(adapter.settings, part.module) or last in heads


def _is_lost(part: Part, names: Mapping[str, object], adapter: Adapter) -> bool:
    return part.module not in names and not _is_new(part, adapter)


def _targeted(
    adapter: Adapter, base: Base, renames: list[Rename], modules: Iterable[tuple[str, str]]
) -> list[str]:
    """Modules of the base that the configuration targets; `modules` are pairs of name and name in files."""
    settings = adapter.settings
    targets = settings.get("target_modules")
    used = list(dict.fromkeys([*renames, IDENTITY]))
    parameters = list(_with_target_parameters(settings, base, used))
    if isinstance(targets, str) and targets.lower() == ALL_LINEAR:
        return parameters
    return parameters + [
        module
        for given, module in modules
        if base.weight_of(module) is not None
        and any(is_target(settings, name) for name in _given_names(given, used))
    ]


def _with_target_parameters(settings: Settings, base: Base, renames: list[Rename]) -> Iterator[str]:
    """Modules with a parameter that is a target by itself, stored as a stack or as experts one by one."""
    if not settings.get("target_parameters"):
        return
    for module in dict.fromkeys((*base.modules, *base.stacks)):
        own = {*base.modules.get(module, {}), *parameters_of(base, module)}
        names = _given_names(module, renames)
        if any(is_target_parameter(settings, f"{name}.{one}") for name in names for one in own):
            yield module


def _given_names(module: str, renames: Iterable[Rename]) -> Iterator[str]:
    for rename in renames:
        name = rename.back(module)
        if name is not None:
            yield name


def _unused(lost: list[Part], adapter: Adapter, base: Base) -> Iterator[Problem]:
    if not lost:
        return
    tensors = sum(len(part.tensors) for part in lost)
    modules = [part.module for part in lost]
    inside = [module for module in base.modules if module]
    yield source_problem(
        f"{tensors} tensors of the adapter match nothing in the base: {listed(modules)}",
        why=f"it was trained on another model, or on one with other names; the base has {listed(inside, 4)}",
        do="give the base that the adapter was trained on, or rename its tensors in key_map",
        subject=adapter.label,
        check="lora",
    )


def _without_tensors(absent: list[str], adapter: Adapter) -> Iterator[Problem]:
    if not absent:
        return
    random = adapter.settings.get("init_lora_weights", True) is False
    noise = "; with `init_lora_weights: false` PEFT would fill them with noise" if random else ""
    yield source_problem(
        f"{len(absent)} modules are targets of the configuration and have no tensors: {listed(absent)}",
        why=f"the configuration is of another run, or tensors were lost when the adapter was saved{noise}",
        do="fetch the adapter again, or put target_modules right in its adapter_config.json",
        subject=adapter.label,
        check="lora",
    )


def _unsaved(adapter: Adapter, parts: list[Part]) -> Iterator[Problem]:
    """Modules that were to be saved whole, with no tensors."""
    task = str(adapter.settings.get("task_type", ""))
    known = ("classifier", "score") if task in ("SEQ_CLS", "TOKEN_CLS") else ()
    for name in adapter.settings.get("modules_to_save") or ():
        held = any(
            f".{name}." in f".{part.module}." or part.module.endswith(name) for part in parts
        )
        if not held and name not in known:
            yield source_problem(
                f"`modules_to_save` names `{name}`, and the adapter has no tensors of it",
                why="they were lost when the adapter was saved, or the configuration is of another run",
                do="fetch the adapter again, or put modules_to_save right in its adapter_config.json",
                subject=adapter.label,
                check="lora",
            )


def _said_of_renames(
    names: Mapping[str, tuple[str, Rename]], adapter: Adapter
) -> Iterator[Finding]:
    used = [rename for _, rename in names.values() if rename != IDENTITY]
    for rename in dict.fromkeys(used):
        message = (
            f"{used.count(rename)} modules are called otherwise in the files of the base: {rename}"
        )
        yield info("lora", adapter.label, message)


def _said_of_what_is_not_stored(adapter: Adapter) -> Iterator[Finding]:
    field, default, what = NOT_STORED.get(adapter.settings.peft_type, ("", True, ""))
    if what and not (adapter.settings.get(field, default) if field else default):
        message = f"part of its update is not stored: {what}, anew whenever it is loaded"
        hint = "PEFT does the same; another machine or version may come to other values, so compare logits"
        yield warning("lora", adapter.label, message, hint)


def families_of(matched: Iterable[Matched]) -> tuple[dict[str, int], dict[str, int]]:
    """Modules that were touched and that were targeted, counted by family."""
    known = list(matched)
    touched = dict.fromkeys(module for one in known for module in one.touched)
    targeted = dict.fromkeys(module for one in known for module in one.targeted)
    return count_families(touched), count_families(targeted)
