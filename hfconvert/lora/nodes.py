"""From the terms of a tensor to the node that computes the merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from hfconvert.lora.merged import F32, Merged
from hfconvert.lora.scales import scale_of
from hfconvert.lora.some_rows import Some
from hfconvert.lora.terms import Layer, Term
from hfconvert.lora.updates import Added, Experts, LowRank, Rows, Update
from hfconvert.lora.whole import PeftMerged
from hfconvert.lora.whole_model import OfModel, WholeModel
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Permute
from hfconvert.tensors.tally import Tally


@dataclass(frozen=True, slots=True)
class Making:
    """How merges are computed: `native` rounds as PEFT does at the stored dtypes; losses go to `tally`.

    `find` gives a tensor of the base by its name. `model` is the whole merged model, where it is made.
    """

    native: bool
    tally: Tally
    find: Callable[[str], LazyTensor]
    model: WholeModel | None = None


def merged(
    name: str, base: LazyTensor, terms: Sequence[Term], dtype: DType, making: Making
) -> Merged | PeftMerged | OfModel:
    """The tensor with all its updates, in their order."""
    if making.model is not None and terms:
        factors = tuple(
            one for term in terms for one in (*term.tensors.values(), *term.shared.values())
        )
        return OfModel(making.model, base, factors, dtype, name, making.tally)
    stages = list(_stages(terms))
    node: Merged | PeftMerged | None = None
    for number, stage in enumerate(stages):
        last = number == len(stages) - 1
        wide = base.spec.dtype if making.native or base.spec.dtype.code == "F64" else F32
        node = _node(name, node or base, stage, dtype if last else wide, making)
    return node or Merged(base, (), dtype, name, making.tally)


def update_of(term: Term) -> Update:
    """The update that a term stands for."""
    if term.kind == "low-rank":
        update = _low_rank(term)
        return update if term.first is None else Some(update, term.first, update.left.spec.shape[0])
    if term.kind == "added":
        return Added(term.tensors["added"], scale_of(term))
    if term.kind == "rows":
        return Rows(term.tensors["rows"], term.indices)
    if term.kind == "experts" and term.stack is not None:
        a, b, stack = term.tensors["A"], term.tensors["B"], term.stack
        return Experts(a, b, stack.experts, scale_of(term), stack.swapped, stack.expert, stack.row)
    raise ValueError(term.kind)


def _stages(terms: Sequence[Term]) -> Iterator[tuple[Term, ...]]:
    """Terms that are merged together. Of one method all go to PEFT when one of them has to."""
    for _, group in groupby(terms, lambda term: (term.kind == "rows", term.settings.peft_type)):
        stage = tuple(group)
        if any(term.kind == "module" for term in stage):
            layer = next(term.layer for term in stage if term.layer is not None)
            stage = tuple(_by_peft(term, layer) for term in stage)
        yield stage


def _by_peft(term: Term, layer: Layer) -> Term:
    if term.kind == "module":
        return term
    names = {"A": "lora_A.weight", "B": "lora_B.weight", "added": "lora_B.bias"}
    if layer.kind == "embedding":
        names = {"A": "lora_embedding_A", "B": "lora_embedding_B"}
    tensors = {names[key]: tensor for key, tensor in term.tensors.items()}
    return replace(term, kind="module", tensors=tensors, layer=layer)


def _node(
    name: str, base: LazyTensor, stage: tuple[Term, ...], dtype: DType, making: Making
) -> Merged | PeftMerged:
    layer = stage[0].layer
    if stage[0].kind != "module" or layer is None:
        updates = tuple(update_of(term) for term in stage)
        return Merged(base, updates, dtype, name, making.tally, making.native)
    module, _, output = name.rpartition(".")
    bases = {
        parameter: base if parameter == output else making.find(f"{module}.{parameter}")
        for parameter in layer.parameters
    }
    return PeftMerged(bases, output, layer, stage, dtype, name, making.tally, making.native)


def _low_rank(term: Term) -> LowRank:
    a, b = term.tensors["A"], term.tensors["B"]
    if term.transposed:
        a, b = Permute(b, (1, 0)), Permute(a, (1, 0))
    return LowRank(b, a, scale_of(term), term.parameter, term.transposed)
