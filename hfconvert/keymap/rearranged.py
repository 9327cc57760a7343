"""Steps that change what a tensor holds and leave its name as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hfconvert.keymap.applied import Applied
from hfconvert.keymap.made import Making, remade
from hfconvert.keymap.rules import Rule, first_matches, unmatched
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor

MakeOne = Callable[[LazyTensor], LazyTensor]  # UnfitError where it cannot


def rearranged(
    checkpoint: Checkpoint,
    rules: Sequence[Rule],
    makes: Sequence[MakeOne],
    label: str,
    subject: str,
) -> Applied:
    """What every rule covers, made anew by the function of the first rule that does.

    UserError (exit 2) where no rule matches or a tensor does not fit; a rule that matches nothing is a
    warning.
    """
    chosen = {
        name: number
        for name, number, _ in first_matches([rule.pattern for rule in rules], checkpoint)
    }
    texts = {rule.pattern.text: rule.subject for rule in rules}
    hits = {rules[number].pattern.text for number in chosen.values()}
    findings = unmatched(texts, hits, subject)

    def make(tensors: Sequence[LazyTensor], making: Making) -> list[LazyTensor]:
        return [makes[chosen[making.taken[0]]](tensors[0])]

    makings = [Making((name,), (name,)) for name in chosen]
    return Applied(remade(checkpoint, makings, make, label, subject), findings)
