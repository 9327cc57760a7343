"""Updates that only PEFT computes: of every other method, of convolutions, of variants of LoRA."""

from __future__ import annotations

import importlib.util
from typing import Literal

from hfconvert.errors import Problem, recipe_problem
from hfconvert.lora.lycoris import lokr_fields
from hfconvert.lora.place import GIVE, OTHER, Place, Share, orientation
from hfconvert.lora.rules import pattern_value
from hfconvert.lora.terms import Layer

# Methods that change the bias of the module too, and those that change nothing else.
_BIASED = frozenset({"IA3", "ROAD", "GLORA"})
_BIAS_ONLY = frozenset({"BEFT"})
# Methods whose shared projections have the size of the largest module that the adapter changes.
_OF_THE_LARGEST = frozenset({"VERA", "PVERA", "RANDLORA"})


def module(place: Place, share: Share) -> None:
    """Hand all that is left of the module to PEFT, where it is of the adapter's method."""
    method = place.settings.method
    own = {
        name: tensor
        for name, tensor in place.part.tensors.items()
        if name not in share.used and name.partition(".")[0] in method.parameters
    }
    dealt = bool(method.whole) and not place.part.tensors
    if share.problems or not (own or dealt):
        return
    share.used |= own.keys()
    name = place.weight
    if name is None:
        share.problems.append(place.problem("there is no weight to change", why=OTHER, do=GIVE))
        return
    if method.whole:
        share.terms.append((name, place.term("whole", own, shared=place.adapter.shared)))
        return
    if not has_peft():
        share.problems.append(_no_peft(place))
        return
    layer = _layer(place, share, name)
    if share.problems:
        return
    r = place.shape("lora_A.weight")[0] if "lora_A.weight" in own else _rank(place)
    overrides = lokr_fields(place, share, own) if place.settings.peft_type == "LOKR" else {}
    term = place.term(
        "module", own, r=r, layer=layer, shared=place.adapter.shared, overrides=overrides
    )
    share.terms += [(target, term) for target in _changed(place, share, layer, name)]


def _changed(place: Place, share: Share, layer: Layer, weight: str) -> list[str]:
    """The parameters of the module that its method changes."""
    method, bias = place.settings.peft_type, place.base.tensor_of(place.module, "bias")
    has_bias = "bias" in layer.parameters
    if method in _BIAS_ONLY:
        if not has_bias:
            what = f"{method} trains the bias, and the module of the base has none"
            share.problems.append(place.problem(what, why=OTHER, do=GIVE))
        return [bias] if has_bias else []
    trained = method in _BIASED or "lora_B.bias" in place.part.tensors
    return [weight, bias] if has_bias and trained else [weight]


def has_peft() -> bool:
    """Whether torch and PEFT are installed; imports neither."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "peft"))


def _layer(place: Place, share: Share, name: str) -> Layer:
    shape = place.base.shape(name)
    names = [key for key in ("weight", "bias") if place.base.shape_or_none(f"{place.module}.{key}")]
    kind: Literal["linear", "embedding", "conv"] = "conv" if len(shape) > 2 else "linear"
    if any("embedding" in parameter for parameter in place.part.tensors):
        kind = "embedding"
    if kind == "conv":
        _check_groups(place, share, name)
    transposed = kind == "linear" and _transposed(place, share, name)
    return Layer(
        kind=kind,
        parameters=tuple(names),
        transposed=transposed,
        largest=_largest(place),
        feedforward=_is_feedforward(place),
    )


def _transposed(place: Place, share: Share, name: str) -> bool:
    """By the factors of LoRA where there are whole ones, else by the model's type or the configuration."""
    shape = place.base.shape(name)
    a, b = place.find("lora_A"), place.find("lora_B")
    if a is None or b is None or place.settings.get("use_bdlora"):
        known = place.base.stores_transposed(place.module)
        return bool(place.settings.get("fan_in_fan_out")) if known is None else known
    found = orientation(place, shape, (place.shape(b)[0], place.shape(a)[-1]))
    if found is None:
        given = f"{a} {list(place.shape(a))} and {b} {list(place.shape(b))}"
        what = f"{given} do not fit {name}, which is {list(shape)}"
        share.problems.append(place.problem(what, why=OTHER, do=GIVE))
    if place.settings.peft_type == "LORA":
        place.rank(share, place.shape(a)[0])
    return bool(found)


def _check_groups(place: Place, share: Share, name: str) -> None:
    """Grouped convolutions cannot be merged by PEFT; their weight has fewer inputs than the factors."""
    a, shape = place.find("lora_A"), place.base.shape(name)
    if a is not None and len(place.shape(a)) == len(shape) and place.shape(a)[1] != shape[1]:
        what = f"{name} {list(shape)} is a grouped convolution, {a} is {list(place.shape(a))}"
        why = "PEFT has no merge for convolutions with groups, depthwise ones among them"
        share.problems.append(place.problem(what, why=why, do="keep base and adapter apart"))


def _largest(place: Place) -> tuple[int, int] | None:
    """The size of shared projections: as stored, or that of the largest module that the adapter changes."""
    shared = place.adapter.shared
    if "vera_A" in shared and "vera_B" in shared:
        return shared["vera_B"].spec.shape[0], shared["vera_A"].spec.shape[1]
    return place.largest if place.settings.peft_type in _OF_THE_LARGEST else None


def _rank(place: Place) -> int:
    rank = pattern_value(
        place.settings.get("rank_pattern"), place.part.module, place.settings.get("r", 8)
    )
    return rank if isinstance(rank, int) and rank > 0 else 1


def _is_feedforward(place: Place) -> bool:
    """Whether IA3 scales the inputs of this module instead of its outputs."""
    given = place.settings.get("feedforward_modules") or ()
    module = place.part.module
    if isinstance(given, str):
        return pattern_value({given: True}, module, default=False) is True
    return any(module == name or module.endswith(f".{name}") for name in given)


def _no_peft(place: Place) -> Problem:
    return recipe_problem(
        f"merging {place.settings.peft_type} on such modules needs torch and PEFT",
        why="only plain LoRA is merged without them",
        do="pip install 'hfconvert[models]'",
        subject=place.adapter.label,
        check="lora",
    )
