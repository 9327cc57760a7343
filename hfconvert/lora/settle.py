"""What all the adapters together make of each tensor: its base, its updates, and what becomes of ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hfconvert.errors import Problem, raise_any, recipe_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.keymap.fold import listed
from hfconvert.lora.base import Base
from hfconvert.lora.match import Matched
from hfconvert.lora.place import Replacement
from hfconvert.lora.terms import Term
from hfconvert.tensors.compare import same_values
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that adapters change: what it is before their updates, the dtype to keep, the updates.

    `replacement` is what took the base's place, None where the base is still there.
    """

    base: LazyTensor
    dtype: DType
    terms: tuple[Term, ...] = ()
    replacement: Replacement | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The tensors that change, the names that are written though the base ties them, what was noticed."""

    states: Mapping[str, State]
    untied: tuple[str, ...]
    findings: tuple[Finding, ...]


def settle(
    base: Base,
    found: Sequence[Matched],
    on_tie: Literal["untie", "error"],
    where: Callable[..., str],
) -> Settled:
    """Put the shares of all the adapters together, in their order, and decide what becomes of ties.

    UserError (exit 2) where a tie would have to be undone and the recipe says that this is an error.
    """
    states = dict(_states(base, found))
    stay: dict[str, str] = {}
    findings = [*_said_of_replacements(base, states), *_said_of_what_is_lost(found)]
    untied, problems = [], []
    for dropped, kept in base.ties.items():
        if _stays(kept, dropped, states):
            findings += _follow(kept, dropped, states)
            stay[dropped] = kept
        elif on_tie == "error":
            problems.append(_tied(kept, dropped, where("lora", "on_tie")))
        else:
            states[dropped] = states.get(dropped) or _copy(base, kept, states)
            untied.append(dropped)
            findings.append(_said_untied(kept, dropped))
    raise_any(problems)
    if untied and stay:
        states |= {
            name: states.get(kept) or _copy(base, kept, states) for name, kept in stay.items()
        }
        untied += stay
        findings.append(_said_of_others(stay))
    return Settled(states, tuple(untied), tuple(findings))


def _states(base: Base, found: Sequence[Matched]) -> Iterator[tuple[str, State]]:
    names = dict.fromkeys(name for one in found for name in (*one.replaced, *one.terms))
    for name in names:
        stored = name in base.checkpoint or name in base.ties
        state: State | None = None
        if stored:
            tensor = base.checkpoint[base.ties.get(name, name)].tensor
            state = State(tensor, tensor.spec.dtype)
        for one in found:
            replacement = one.replaced.get(name)
            if replacement is not None:
                tensor = replacement.tensor
                dtype = state.dtype if state else tensor.spec.dtype
                state = State(tensor, dtype, (), replacement)
            if state is not None:
                state = replace(state, terms=(*state.terms, *one.terms.get(name, ())))
        if state is not None:
            yield name, state


def _stays(kept: str, dropped: str, states: Mapping[str, State]) -> bool:
    """Whether the two are still one tensor after all the updates."""
    first, second = states.get(kept), states.get(dropped)
    if first is None and second is None:
        return True
    if first is None:
        return False
    if any(term.kind != "rows" for state in (first, second) if state for term in state.terms):
        return _is_tied(first) and (second is None or _is_tied(second))
    if second is None:
        replaced = first.replacement
        return replaced is None or not replaced.trained or replaced.tied
    if second.terms or first.replacement is None or second.replacement is None:
        return False
    return same_values(first.base, second.base)


def _is_tied(state: State) -> bool:
    """Whether the adapter was trained with both ends tied."""
    tied = [bool(term.settings.get("ensure_weight_tying")) for term in state.terms]
    return bool(tied) and all(tied)


def _follow(kept: str, dropped: str, states: dict[str, State]) -> Iterator[Finding]:
    """The name that is not written has no state of its own."""
    if states.pop(dropped, None) is not None or kept in states:
        yield info("lora", dropped, f"stays tied to {kept}: the adapters change both ends alike")


def _copy(base: Base, kept: str, states: Mapping[str, State]) -> State:
    """The other end as it was: what the adapter was trained on, where its embedding was resized."""
    tensor = base.checkpoint[kept].tensor
    state = states.get(kept)
    if state and state.replacement and not state.replacement.trained:
        return State(state.base, state.dtype, (), state.replacement)
    return State(tensor, tensor.spec.dtype)


def _tied(kept: str, dropped: str, subject: str) -> Problem:
    return recipe_problem(
        f"the adapter changes one of {kept} and {dropped}, which are tied",
        why="merged into both ends, its update would act twice",
        do="say lora.on_tie: untie to have both written, with tie_word_embeddings: false",
        subject=subject,
        check="lora",
    )


def _said_untied(kept: str, dropped: str) -> Finding:
    message = f"no longer tied to {kept}: the adapter changes one end only; both are written"
    return info("lora", dropped, message, "tie_word_embeddings is false now")


def _said_of_others(stay: Mapping[str, str]) -> Finding:
    """The configuration has one switch for all the ties of a model."""
    message = f"{len(stay)} other names that are tied are written too: {listed(stay)}"
    return info(
        "lora", "", message, "loaders tie nothing of a model whose tie_word_embeddings is false"
    )


def _said_of_what_is_lost(found: Sequence[Matched]) -> Iterator[Finding]:
    """What takes a tensor's place takes that of what earlier adapters made of it, and has no weight."""
    changed: dict[str, str] = {}  # tensor -> the adapter that changed it last
    for one in found:
        label = one.adapter.label
        lost = [name for name in one.replaced if name in changed]
        if lost:
            message = (
                f"{listed(lost)}: what {changed[lost[0]]} makes of it is lost, it is replaced whole"
            )
            yield warning(
                "lora", label, message, "of several, the last adapter counts: order them so"
            )
        trained = [name for name, replacement in one.replaced.items() if replacement.trained]
        if trained and one.adapter.weight != 1:
            message = f"{listed(trained)}: replaced whole, whatever the weight {one.adapter.weight}"
            yield warning("lora", label, message, "a weight scales updates only")
        changed |= dict.fromkeys((*trained, *one.terms), label)


def _said_of_replacements(base: Base, states: Mapping[str, State]) -> Iterator[Finding]:
    for name, state in states.items():
        replacement = state.replacement
        if replacement is None:
            continue
        before = base.shape_or_none(name)
        after = state.base.spec.shape
        stored, kept = state.base.spec.dtype, state.dtype
        if before is None:
            message = f"new: the adapter brings it as {state.base.spec}"
            yield info("lora", name, message)
        elif before != after:
            message = f"has {after[0]} rows now, as the adapter has them; the base has {before[0]}"
            yield info("lora", name, message)
        if stored != kept:
            message = f"is {stored} in the adapter and is rounded to {kept}, the dtype of the base"
            yield warning("lora", name, message, "a rule under `dtype` keeps it wider")
