"""What a merge changes in the configuration of the model: ties, vocabulary, and the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hfconvert.errors import Problem, source_problem
from hfconvert.findings import Finding, info, warning
from hfconvert.lora.adapter import Adapter
from hfconvert.lora.base import Base
from hfconvert.lora.embeddings import HEAD, INPUT
from hfconvert.lora.settle import Settled
from hfconvert.readers.config import model_configs
from hfconvert.readers.json_text import KeyPath

TIE = "tie_word_embeddings"
VOCABULARY = "vocab_size"
_HEADS = {"SEQ_CLS": "ForSequenceClassification", "TOKEN_CLS": "ForTokenClassification"}
_LANGUAGE = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")
_CLASSIFIER = ("score.weight", "classifier.weight", "classifier.out_proj.weight")


@dataclass(frozen=True, slots=True)
class Changed:
    """Values of the configuration by their paths, heads that have no place any more, what is wrong."""

    values: Mapping[KeyPath, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()


def change_config(base: Base, settled: Settled, adapters: Sequence[Adapter]) -> Changed:
    """What follows from the tensors that were settled."""
    ties = {
        (*path, TIE): False
        for path, part in model_configs(base.config)
        if settled.untied and (TIE in part or not path)
    }
    rows = _new_rows(base, settled)
    vocabulary = dict(_vocabulary(base.config, rows)) if rows else {}
    head = _head(base, settled, adapters)
    return Changed(
        {**ties, **vocabulary, **head.values},
        head.dropped,
        tuple(_unequal(base, settled, rows)) if rows else (),
        (*_said(vocabulary, rows), *head.findings),
    )


def _new_rows(base: Base, settled: Settled) -> int | None:
    """How many rows the input embedding has now, where the adapters resized it."""
    for name, state in settled.states.items():
        before = base.shape_or_none(name)
        after = state.base.spec.shape
        if INPUT.search(name) and before is not None and before[0] != after[0]:
            return after[0]
    return None


def _vocabulary(config: Mapping[str, Any], rows: int | None) -> Iterator[tuple[KeyPath, Any]]:
    for path, part in model_configs(config):
        if VOCABULARY in part and not any("vis" in key or "audio" in key for key in path):
            yield (*path, VOCABULARY), rows


def _unequal(base: Base, settled: Settled, rows: int | None) -> Iterator[Problem]:
    """Heads and embeddings that do not have the new number of rows."""
    names = dict.fromkeys((*base.checkpoint, *settled.states))
    for name in names:
        if not (INPUT.search(name) or HEAD.search(name)) or "vis" in name:
            continue
        state = settled.states.get(name)
        shape = state.base.spec.shape if state else base.shape(name)
        if len(shape) == 2 and shape[0] != rows:
            yield source_problem(
                f"the adapter expects {rows} rows, {name} of the base has {shape[0]}",
                why="the vocabulary was resized for the training, and not all of its rows were stored",
                do="save the adapter again with save_embedding_layers=True",
                subject=name,
                check="lora",
            )


def _said(vocabulary: Mapping[KeyPath, Any], rows: int | None) -> Iterator[Finding]:
    if rows and not vocabulary:
        message = (
            f"the vocabulary has {rows} rows now, and the configuration names no size to change"
        )
        yield warning("lora", "config.json", message)
    for path in vocabulary:
        yield info(
            "lora", "config.json", f"`{'.'.join(path)}` is {rows} now, as the adapter has it"
        )


def _head(base: Base, settled: Settled, adapters: Sequence[Adapter]) -> Changed:
    """A classifier in place of the language model's head: its class, its labels, the head that goes."""
    tasks = [str(adapter.settings.get("task_type", "")) for adapter in adapters]
    task = next((task for task in reversed(tasks) if task in _HEADS), None)
    new = [
        state.base.spec.shape[0]
        for name, state in settled.states.items()
        if name.endswith(_CLASSIFIER) and base.shape_or_none(name) != state.base.spec.shape
    ]
    if task is None or not new:
        return Changed()
    labels = [f"LABEL_{number}" for number in range(new[0])]
    values: dict[KeyPath, Any] = {
        ("id2label",): {str(number): label for number, label in enumerate(labels)},
        ("label2id",): {label: number for number, label in enumerate(labels)},
    }
    classes = base.config.get("architectures") or []
    renamed = [_renamed(str(name), _HEADS[task]) for name in classes]
    if renamed != classes:
        values["architectures",] = renamed
    dropped = tuple(name for name in base.checkpoint if HEAD.search(name))
    message = f"a classifier with {new[0]} labels takes the place of the head: {', '.join(renamed)}"
    hint = "the names of the labels are not in the adapter: put them into id2label"
    return Changed(values, dropped, (), (info("lora", "config.json", message, hint),))


def _renamed(name: str, head: str) -> str:
    for end in _LANGUAGE:
        if name.endswith(end):
            return name.removesuffix(end) + head
    return name
