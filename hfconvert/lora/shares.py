"""What the tensors that an adapter has for one module mean for the tensors of the base."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hfconvert.keymap.fold import listed
from hfconvert.lora.expert_shares import experts
from hfconvert.lora.low_rank_shares import attention, embedding, low_rank, of_training
from hfconvert.lora.lycoris import differences, dora_scale
from hfconvert.lora.module_shares import module
from hfconvert.lora.place import GIVE, Place, Replacement, Shape, Share
from hfconvert.lora.unfit import no_floats, single_numbers


def share_of(place: Place) -> Share:
    """Sort the tensors of a part: what replaces, what is added, what is left and therefore wrong."""
    share = Share(problems=list(single_numbers(place)))
    if share.problems:
        return share
    for read in _READERS:
        read(place, share)
    share.problems += no_floats(place, share)
    left = [name for name in place.part.tensors if name not in share.used]
    if left and not share.problems:
        what = f"hfconvert does not know what to do with {listed(left)}"
        why = f"they are no parameters of {place.settings.peft_type} on such a module"
        share.problems.append(place.problem(what, why=why, do="merge this adapter with PEFT"))
    return share


def replacements(place: Place, share: Share) -> None:
    """Whole tensors: trained modules, biases, layer norms, and what PEFT stores of a resized base."""
    for parameter, tensor in place.part.tensors.items():
        name = parameter.removeprefix("base_layer.").removeprefix("ln_tuning_layers.")
        if name not in ("weight", "bias") and ("." in name or not place.is_saved):
            continue
        share.used.add(parameter)
        target = place.base.tensor_of(place.module, name)
        copied = parameter.startswith("base_layer.") and not place.biases_trained
        share.replaced[target] = Replacement(
            tensor,
            place.part.names[parameter],
            place.adapter.label,
            trained=not copied and (place.is_saved or not place.is_embedding),
            tied=bool(place.settings.get("ensure_weight_tying")),
        )
        before = place.base.shape_or_none(target)
        if before is not None and not _fits(before, tensor.spec.shape):
            what = (
                f"{parameter} is {list(tensor.spec.shape)}, {target} of the base is {list(before)}"
            )
            why = "the adapter was trained on another model"
            share.problems.append(place.problem(what, why=why, do=GIVE))


def tokens(place: Place, share: Share) -> None:
    """Single rows of an embedding that were trained."""
    found = place.find("token_adapter.trainable_tokens_delta", "trainable_tokens_delta")
    if found is None:
        return
    share.used.add(found)
    indices = token_indices(place)
    name, tensor = place.weight, place.tensor(found)
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
    elif tensor.spec.shape[1:] != place.base.shape(name)[1:] or len(set(indices)) < len(indices):
        what = (
            f"rows of {list(tensor.spec.shape[1:])} are stored for the tokens {list(indices)[:8]}, "
            f"{name} of the base is {list(place.base.shape(name))}"
        )
        why = "the adapter was trained on another model, or a token is configured twice"
        share.problems.append(place.problem(what, why=why, do=GIVE))
    else:
        share.terms.append((name, place.term("rows", {"rows": tensor}, indices=indices)))


def token_indices(place: Place) -> tuple[int, ...]:
    """The rows that were trained, as the configuration has them."""
    given = place.settings.get("trainable_token_indices", place.settings.get("token_indices", ()))
    if isinstance(given, Mapping):
        names = [name for name in given if f".{place.part.module}".endswith(f".{name}")]
        given = given[names[0]] if names else ()
    return tuple(int(index) for index in given)


def _fits(before: Shape, after: Shape) -> bool:
    """Equal, or another number of rows: a resized vocabulary, other labels."""
    return before == after or (len(before) == len(after) and before[1:] == after[1:])


_READERS: tuple[Callable[[Place, Share], None], ...] = (
    replacements,
    tokens,
    of_training,
    differences,
    dora_scale,
    experts,
    attention,
    embedding,
    low_rank,
    module,
)
