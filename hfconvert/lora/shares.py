"""What the tensors that an adapter has for one module mean for the tensors of the base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hfconvert.errors import Problem, source_problem
from hfconvert.keymap.fold import listed
from hfconvert.lora.adapter import Adapter, Part
from hfconvert.lora.base import Base
from hfconvert.lora.rules import is_target_parameter, pattern_value
from hfconvert.lora.terms import Term
from hfconvert.tensors.lazy import LazyTensor

Shape = tuple[int, ...]


@dataclass(slots=True)
class Share:
    """Updates by the name of the tensor, tensors that take the place of others, and what is wrong."""

    terms: list[tuple[str, Term]] = field(default_factory=list)
    replaced: dict[str, LazyTensor] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # parameters of the adapter


@dataclass(frozen=True, slots=True)
class Place:
    """A part of an adapter and the module of the base that it belongs to."""

    part: Part
    module: str
    adapter: Adapter
    base: Base

    @property
    def weight(self) -> str | None:
        """The name of the module's weight in the base."""
        return self.base.weight_of(self.module)

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

    def problem(self, what: str, *, why: str, do: str) -> Problem:
        """A problem of this module."""
        subject = f"{self.adapter.label}: {self.part.module}"
        return source_problem(what, why=why, do=do, subject=subject, check="lora")


def share_of(
    part: Part, module: str, adapter: Adapter, base: Base, peft_version: str | None
) -> Share:
    """Sort the tensors of a part: what replaces, what is added, what is left and therefore wrong."""
    place, share = Place(part, module, adapter, base), Share()
    for read in _READERS:
        read(place, share)
    left = [name for name in part.tensors if name not in share.used]
    if left and not share.problems:
        share.problems.append(
            place.problem(
                f"hfconvert does not know what to do with {listed(left)}",
                why=f"they are no parameters of {adapter.settings.peft_type} on such a module",
                do="merge this adapter with PEFT",
            )
        )
    return share


def _replacements(place: Place, share: Share) -> None:
    """Whole tensors: trained modules, biases, layer norms, and what PEFT stores of a resized base."""
    for parameter, tensor in place.part.tensors.items():
        name = parameter.removeprefix("base_layer.").removeprefix("ln_tuning_layers.")
        if "." in name or name not in ("weight", "bias"):
            continue
        share.used.add(parameter)
        target = place.base.tensor_of(place.module, name)
        share.replaced[target] = tensor
        before = place.base.shape_or_none(target)
        if before is not None and not _fits(before, tensor.spec.shape):
            share.problems.append(
                place.problem(
                    f"{parameter} is {list(tensor.spec.shape)}, {target} of the base is {list(before)}",
                    why="the adapter was trained on another model",
                    do="give the base that it was trained on",
                )
            )


def _fits(before: Shape, after: Shape) -> bool:
    """Equal, or another number of rows: a resized vocabulary, other labels."""
    return before == after or (len(before) == len(after) and before[1:] == after[1:])


def _tokens(place: Place, share: Share) -> None:
    found = place.find("token_adapter.trainable_tokens_delta", "trainable_tokens_delta")
    if found is None:
        return
    share.used.add(found)
    indices = token_indices(place)
    name, tensor = place.weight, place.part.tensors[found]
    rows = place.base.rows_of(name, share.replaced) if name else 0
    if name is None or len(indices) != tensor.spec.shape[0]:
        what = (
            f"{len(indices)} token indices are configured, {tensor.spec.shape[0]} rows are stored"
        )
        why, do = "the configuration is of another run", "fetch the adapter again"
        share.problems.append(place.problem(what, why=why, do=do))
    elif any(index >= rows for index in indices):
        what = f"token {max(indices)} is trained, the base has {rows} rows"
        why = "its vocabulary was resized for the training, and the new rows are not stored"
        do = "save the adapter again with save_embedding_layers=True, or resize the base in key_map"
        share.problems.append(place.problem(what, why=why, do=do))
    else:
        share.terms.append((name, _term(place, "rows", {"rows": tensor}, indices=indices)))


def token_indices(place: Place) -> tuple[int, ...]:
    """The rows that were trained, as the configuration has them."""
    settings = place.adapter.settings
    given = settings.get("trainable_token_indices", settings.get("token_indices", ()))
    if isinstance(given, Mapping):
        names = [name for name in given if f".{place.part.module}".endswith(f".{name}")]
        given = given[names[0]] if names else ()
    return tuple(int(index) for index in given)


def _embedding(place: Place, share: Share) -> None:
    a, b = place.find("lora_embedding_A"), place.find("lora_embedding_B")
    if a is None and b is None:
        return
    share.used |= {name for name in (a, b) if name}
    if a is None or b is None:
        share.problems.append(_half(place, a or b or ""))
        return
    name = place.weight
    rows = place.base.rows_of(name, share.replaced) if name else 0
    columns = place.base.shape(name)[1] if name else 0
    r = place.shape(a)[0]
    given = (place.shape(a)[-1], place.shape(b)[0])
    if name is None or given != (rows, columns) or place.shape(b)[-1] != r:
        what = f"its update is for {list(given)} rows and columns, the base has {[rows, columns]}"
        why = "the vocabulary was resized for the training and its rows are not stored, or the base is another"
        share.problems.append(place.problem(what, why=why, do="give the base with that vocabulary"))
        return
    factors = {"A": place.part.tensors[a], "B": place.part.tensors[b]}
    _add_low_rank(place, share, name, factors, transposed=True, parameter=True)


def _low_rank(place: Place, share: Share) -> None:
    a, b = place.find("lora_A"), place.find("lora_B")
    if place.adapter.settings.peft_type != "LORA" or (a is None and b is None):
        return
    share.used |= {name for name in (a, b) if name}
    if a is None or b is None:
        share.problems.append(_half(place, a or b or ""))
        return
    name = place.weight
    if name is None:
        what = "there is no weight to add its update to"
        share.problems.append(place.problem(what, why=_OTHER, do=_GIVE))
        return
    transposed = orientation(place, name, a, b)
    if transposed is None:
        share.problems.append(_misfit(place, name, a, b))
        return
    factors = {"A": place.part.tensors[a], "B": place.part.tensors[b]}
    parameter = is_target_parameter(place.adapter.settings, f"{place.part.module}.weight")
    _add_low_rank(place, share, name, factors, transposed=transposed, parameter=parameter)
    _bias(place, share)


def orientation(place: Place, name: str, a: str, b: str) -> bool | None:
    """Whether the weight is [in, out]; None where the update fits neither way."""
    shape, given = place.base.shape(name), (place.shape(b)[0], place.shape(a)[-1])
    if len(shape) != 2 or place.shape(b)[-1] != place.shape(a)[0]:
        return None
    if shape[0] != shape[1]:
        return False if given == shape else True if given == shape[::-1] else None
    if given != shape:
        return None
    known = place.base.stores_transposed(place.module)
    flag = bool(place.adapter.settings.get("fan_in_fan_out"))
    return flag if known is None else known


def _add_low_rank(
    place: Place,
    share: Share,
    name: str,
    factors: Mapping[str, LazyTensor],
    *,
    transposed: bool,
    parameter: bool,
) -> None:
    r, wrong = _rank(place, factors["A"].spec.shape[0])
    if wrong:
        share.problems.append(wrong)
        return
    term = _term(place, "low-rank", factors, r=r, transposed=transposed, parameter=parameter)
    share.terms.append((name, term))


def _bias(place: Place, share: Share) -> None:
    found = place.find("lora_B.bias")
    if found is None:
        return
    share.used.add(found)
    name = place.base.tensor_of(place.module, "bias")
    if place.base.shape_or_none(name) is None:
        what = "`lora_bias` is set, and the module of the base has no bias to add it to"
        share.problems.append(place.problem(what, why=_OTHER, do=_GIVE))
        return
    r, _ = _rank(place, 0)
    share.terms.append((name, _term(place, "bias", {"bias": place.part.tensors[found]}, r=r)))


def _rank(place: Place, stored: int) -> tuple[int, Problem | None]:
    """The rank by the configuration; a problem where the tensors have another (0: there are none)."""
    settings = place.adapter.settings
    configured = pattern_value(
        settings.get("rank_pattern"), place.part.module, settings.get("r", 8)
    )
    if stored in (0, configured):
        return configured, None
    return stored, place.problem(
        f"the configuration says rank {configured}, the tensors have rank {stored}",
        why="the configuration is of another run; its lora_alpha is then in doubt too",
        do="fetch the adapter's own adapter_config.json, or remove it and give lora.lora_alpha",
    )


def _term(
    place: Place,
    kind: str,
    tensors: Mapping[str, LazyTensor],
    *,
    r: int = 1,
    transposed: bool = False,
    parameter: bool = False,
    indices: tuple[int, ...] = (),
) -> Term:
    settings = place.adapter.settings
    alpha = pattern_value(
        settings.get("alpha_pattern"),
        place.part.module,
        settings.get("lora_alpha", settings.get("alpha", 8)),
    )
    return Term(
        kind=kind,  # type: ignore[arg-type]  # one of the literals
        adapter=place.adapter.label,
        module=place.part.module,
        tensors=tensors,
        settings=settings,
        r=r,
        alpha=float(alpha if place.part.alpha is None else place.part.alpha),
        weight=place.adapter.weight,
        transposed=transposed,
        parameter=parameter,
        indices=indices,
    )


def _half(place: Place, found: str) -> Problem:
    return place.problem(
        f"{found} is there without its other half",
        why="tensors were lost when the adapter was saved",
        do="fetch the adapter again",
    )


def _misfit(place: Place, name: str, a: str, b: str) -> Problem:
    given = f"lora_A {list(place.shape(a))} and lora_B {list(place.shape(b))}"
    return place.problem(
        f"{given} do not fit {name}, which is {list(place.base.shape(name))}",
        why="the adapter was trained on another model or size, or on a layer that was split or joined there",
        do="give the base that it was trained on",
    )


_OTHER = "the adapter was trained on another model"
_GIVE = "give the base that it was trained on"
_READERS: tuple[Callable[[Place, Share], None], ...] = (
    _replacements,
    _tokens,
    _embedding,
    _low_rank,
)
