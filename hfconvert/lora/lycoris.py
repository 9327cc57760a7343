"""What LyCORIS and kohya's scripts store otherwise than PEFT, where it is not open how it is meant.

Source: the modules `locon`, `lokr`, `full` and `norms` of LyCORIS 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hfconvert.lora.place import GIVE, OTHER, Place, Share
from hfconvert.lora.terms import Layer
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute
from hfconvert.tensors.window import Select

# Differences from the base that are stored whole, and the parameter that each belongs to.
_DIFFERENCES = {"diff": "weight", "diff_b": "bias", "w_norm": "weight", "b_norm": "bias"}


def differences(place: Place, share: Share) -> None:
    """Whole differences from the base: of trained layers, biases and norms."""
    if place.adapter.naming != "kohya":
        return
    for name, parameter in _DIFFERENCES.items():
        if name not in place.part.tensors:
            continue
        share.used.add(name)
        target = place.base.tensor_of(place.module, parameter)
        shape = place.base.shape_or_none(target)
        if shape != place.shape(name):
            what = f"{name} {list(place.shape(name))} does not fit {target} {list(shape or ())}"
            share.problems.append(place.problem(what, why=OTHER, do=GIVE))
            continue
        term = replace(place.term("added", {"added": place.tensor(name)}), r=1, alpha=1.0)
        share.terms.append((target, term))


def dora_scale(place: Place, share: Share) -> None:
    """A magnitude over the inputs, [1, in], or over the outputs, [out, 1]: another axis than each other.

    Over the outputs it is PEFT's magnitude vector; over the inputs it is that of the transposed layer.
    """
    scale = place.part.tensors.get("dora_scale")
    name = place.weight
    if scale is None or name is None:
        return
    names = place.pair(share, "lora_A", "lora_B")
    shape = place.base.shape(name)
    if names is None or (place.shape(names[1])[0], place.shape(names[0])[-1]) != shape:
        what = "`dora_scale` is there, and not over a plain update of a linear layer"
        why = "only those are merged with a magnitude of this kind"
        share.problems.append(place.problem(what, why=why, do="merge it with LyCORIS"))
        return
    share.used.add("dora_scale")
    a, b = (place.tensor(one) for one in names)
    if scale.spec.shape == (1, shape[1]):
        tensors, transposed = {"lora_A.weight": _turned(b), "lora_B.weight": _turned(a)}, True
    elif scale.spec.shape == (shape[0], 1):
        tensors, transposed = {"lora_A.weight": a, "lora_B.weight": b}, False
    else:
        what = f"`dora_scale` is {list(scale.spec.shape)}, and {name} is {list(shape)}"
        why = "it is neither [1, in] nor [out, 1], so that its axis is open"
        share.problems.append(place.problem(what, why=why, do="merge it with LyCORIS"))
        return
    tensors["lora_magnitude_vector"] = Select(scale, 0 if transposed else 1, 0)
    layer = Layer("linear", ("weight",), transposed=transposed)
    r = place.shape(names[0])[0]
    term = place.term("module", tensors, r=r, layer=layer, overrides={"use_dora": True})
    share.terms.append((name, replace(term, recorded=True)))


def lokr_fields(place: Place, share: Share, tensors: Mapping[str, LazyTensor]) -> dict[str, Any]:
    """Fields with which PEFT makes parameters of these very shapes; empty for what PEFT itself saved.

    LyCORIS scales by alpha / rank, and not at all where both matrices are whole.
    """
    if place.adapter.naming != "kohya":
        return {}
    shapes = {name: tensor.spec.shape for name, tensor in tensors.items()}
    one, two = _size(shapes, "lokr_w1"), _size(shapes, "lokr_w2")
    out, inputs = one[0] * two[0], one[1] * two[1]
    factors = [factor for factor in (-1, one[0], one[1]) if _splits(factor, out, inputs) == one]
    whole = "lokr_w1" in shapes and "lokr_w2" in shapes
    rank = next((shapes[name][0] for name in ("lokr_w1_b", "lokr_w2_b") if name in shapes), 0)
    if not factors or (not whole and place.part.alpha is None):
        what = f"its factors {one} and {two} are not those that PEFT would make"
        why = "the factor that LyCORIS split the layer by is not recorded"
        share.problems.append(place.problem(what, why=why, do="merge it with LyCORIS"))
        return {}
    scale = 1.0 if whole else float(place.part.alpha or rank) / rank
    size = rank if "lokr_w2_b" in shapes else max(two)
    return {
        "r": size,
        "alpha": scale * size,
        "rank_pattern": {},
        "alpha_pattern": {},
        "decompose_factor": factors[0],
        "decompose_both": "lokr_w1_b" in shapes,
    }


def _size(shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, int]:
    if name in shapes:
        return shapes[name][0], shapes[name][1]
    return shapes[f"{name}_a"][0], shapes[f"{name}_b"][1]


def _splits(factor: int, out: int, inputs: int) -> tuple[int, int]:
    return _smaller(out, factor), _smaller(inputs, factor)


def _smaller(size: int, factor: int) -> int:
    """The smaller of two factors of a size: `factor` where it divides, else the largest up to it."""
    if factor > 0 and size % factor == 0:
        return min(factor, size // factor)
    most = size if factor < 0 else factor
    return max(one for one in range(1, most + 1) if size % one == 0 and one * one <= size)


def _turned(tensor: LazyTensor) -> LazyTensor:
    return Permute(tensor, (1, 0))
