"""Plain LoRA on linear layers, Conv1D, embeddings and attention: updates that are merged block by block."""

from __future__ import annotations

from dataclasses import replace

from hfconvert.lora.place import GIVE, OTHER, Place, Share, orientation
from hfconvert.lora.rules import is_target_parameter

# Fields whose effect on the arithmetic is PEFT's own.
_VARIANTS = (
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "kasa_config",
)
# They take something away from the base when the adapter is loaded, or PEFT rounds their update.
_INITIALISERS = ("pissa", "olora", "mica")
# What of VeLoRA and MonteCLoRA is for the training alone.
_OF_TRAINING = ("lora_velora_embed", "lora_monteclora_sampler")


def is_plain(place: Place) -> bool:
    """Whether the update is A and B alone, added to an untouched base."""
    settings = place.settings
    init = settings.values.get("init_lora_weights")
    changed = isinstance(init, str) and init.lower().startswith(_INITIALISERS)
    magnitude = place.find("lora_magnitude_vector") is not None
    variant = any(settings.get(field) for field in _VARIANTS)
    return settings.peft_type == "LORA" and not (changed or magnitude or variant)


def of_training(place: Place, share: Share) -> None:
    """Tensors that change nothing once the training is over."""
    share.used |= {name for name in place.part.tensors if name.startswith(_OF_TRAINING)}


def attention(place: Place, share: Share) -> None:
    """`torch.nn.MultiheadAttention`: its joined input projection, and its output projection.

    The output's update counts twice: PEFT (0.21) adds it twice in the forward pass that it trains with, and
    in its merge, so that this is what the adapter means.
    """
    name = f"{place.module}.in_proj_weight"
    if not is_plain(place) or place.base.shape_or_none(name) is None:
        return
    places = (("", name), ("base_layer.out_proj.", f"{place.module}.out_proj.weight"))
    for front, target in places:
        names = place.pair(share, f"{front}lora_A", f"{front}lora_B")
        if names:
            _add(place, share, target, names, parameter=True)
            again = [(one, term) for one, term in share.terms[-1:] if one == target and front]
            share.terms += [(one, replace(term, parameter=False)) for one, term in again]


def embedding(place: Place, share: Share) -> None:
    """An embedding, whose weight is [vocabulary, width] and takes the transposed update."""
    if not is_plain(place):
        return
    names = place.pair(share, "lora_embedding_A", "lora_embedding_B")
    if names is None:
        return
    a, b = names
    name = place.weight
    if name is None:
        share.problems.append(place.problem("there is no weight to add to", why=OTHER, do=GIVE))
        return
    wanted = (place.base.rows_of(name, share.replaced), place.base.shape(name)[1])
    given = (place.shape(a)[-1], place.shape(b)[0])
    if given != wanted:
        what = (
            f"its update has {given[0]} rows of {given[1]}, the base has {wanted[0]} of {wanted[1]}"
        )
        why = "the vocabulary was resized for the training and its rows are not stored, or it is another base"
        share.problems.append(place.problem(what, why=why, do="give the base with that vocabulary"))
        return
    r = place.rank(share, place.shape(a)[0])
    factors = {"A": place.tensor(a), "B": place.tensor(b)}
    share.terms.append(
        (name, place.term("low-rank", factors, r=r, transposed=True, parameter=True))
    )


def low_rank(place: Place, share: Share) -> None:
    """A Linear or a Conv1D; the bias of B where there is one."""
    name = place.weight
    done = share.used & {"lora_A.weight", "lora_B.weight"}
    if done or not is_plain(place) or (name and len(place.base.shape(name)) != 2):
        return
    names = place.pair(share, "lora_A", "lora_B")
    if names is None:
        return
    if name is None:
        share.problems.append(place.problem("there is no weight to add to", why=OTHER, do=GIVE))
        return
    parameter = is_target_parameter(place.settings, f"{place.part.module}.weight")
    r = _add(place, share, name, names, parameter=parameter)
    _bias(place, share, r)


def _add(place: Place, share: Share, name: str, names: tuple[str, str], *, parameter: bool) -> int:
    a, b = names
    r, shape = place.shape(a)[0], place.base.shape(name)
    transposed = orientation(place, shape, (place.shape(b)[0], place.shape(a)[-1]))
    if transposed is None or place.shape(b)[-1] != r:
        given = f"{a} {list(place.shape(a))} and {b} {list(place.shape(b))}"
        what = f"{given} do not fit {name}, which is {list(shape)}"
        why = "it was trained on another model, or on a layer that was split or joined there"
        share.problems.append(place.problem(what, why=why, do=GIVE))
        return r
    named = ".weight" if parameter and name.endswith(".weight") else ""
    r = place.rank(share, r, named)
    factors = {"A": place.tensor(a), "B": place.tensor(b)}
    term = place.term("low-rank", factors, named, r=r, transposed=transposed, parameter=parameter)
    share.terms.append((name, term))
    return r


def _bias(place: Place, share: Share, r: int) -> None:
    found = place.find("lora_B.bias")
    if found is None:
        return
    share.used.add(found)
    name = place.base.tensor_of(place.module, "bias")
    if place.base.shape_or_none(name) is None:
        what = "`lora_bias` is set, and the module of the base has no bias to add it to"
        share.problems.append(place.problem(what, why=OTHER, do=GIVE))
        return
    share.terms.append((name, place.term("added", {"added": place.tensor(found)}, r=r)))
