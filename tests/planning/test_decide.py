from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.applied import Applied, ClaimedTie
from hfconvert.planning.decide import Decided, Tie, decide, kept_name, lost_ties
from hfconvert.tensors.checkpoint import Checkpoint, Dropped, Entry, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf

TIED = {"tie_word_embeddings": True}
UNTIED = {"tie_word_embeddings": False}


@dataclass(eq=False)
class Memory:
    """A source in memory, which counts the bytes that are read."""

    data: bytes
    name: str = "model.bin"
    read: int = field(default=0)

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:] = self.data[offset : offset + buffer.nbytes]
        self.read += buffer.nbytes

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise AssertionError("nothing here is remote")


def _source(*starts: int, size: int = 4) -> Memory:
    """Runs of `size` floats, each beginning with another number."""
    return Memory(
        b"".join(np.arange(start, start + size, dtype="<f4").tobytes() for start in starts)
    )


def _leaf(source: Memory, run: int, shape: tuple[int, ...] = (2, 2)) -> Leaf:
    return Leaf.packed(TensorSpec(BY_CODE["F32"], shape), source, run * 16)


def _decided(source: Memory, runs: Mapping[str, int], config: Any = None) -> Decided:
    checkpoint = found({name: _leaf(source, run) for name, run in runs.items()})
    return decide(Applied(checkpoint), config)


def _pairs(decided: Decided) -> list[tuple[str, str]]:
    return [(tie.kept, tie.dropped) for tie in decided.ties]


def test_two_names_over_one_storage_are_a_tie_and_nothing_is_read() -> None:
    source = _source(0, 10)
    decided = _decided(source, {"lm_head.weight": 0, "a": 1, "model.embed_tokens.weight": 0})
    assert _pairs(decided) == [("model.embed_tokens.weight", "lm_head.weight")]
    assert list(decided.checkpoint) == ["a", "model.embed_tokens.weight"]
    (finding,) = decided.findings
    assert (finding.level, finding.check, finding.subject) == ("info", "ties", "lm_head.weight")
    assert decided.ties[0].tensor == _leaf(source, 0)
    assert source.read == 0


def test_three_names_over_one_storage() -> None:
    decided = _decided(_source(0), {"b.emb": 0, "a.emb": 0, "head": 0})
    assert _pairs(decided) == [("b.emb", "a.emb"), ("b.emb", "head")]
    assert list(decided.checkpoint) == ["b.emb"]


def test_another_view_of_the_same_bytes_is_no_tie() -> None:
    source = _source(0)
    spec = TensorSpec(BY_CODE["F32"], (2, 2))
    tensors = {
        "a": Leaf.packed(spec, source, 0),
        "turned": Leaf.strided(spec, source, 0, (1, 2)),
        "flat": Leaf.packed(TensorSpec(BY_CODE["F32"], (4,)), source, 0),
        "bits": Leaf.packed(TensorSpec(BY_CODE["I32"], (2, 2)), source, 0),
    }
    decided = decide(Applied(found(tensors)), None)
    assert decided.ties == ()
    assert list(decided.checkpoint) == list(tensors)
    (finding,) = decided.findings
    assert "over common bytes" in finding.message


def test_disjoint_slices_are_independent_and_not_worth_a_word() -> None:
    decided = _decided(_source(0, 10, 20), {"a": 0, "b": 1, "c": 2})
    assert (decided.ties, decided.findings) == ((), ())
    assert list(decided.checkpoint) == ["a", "b", "c"]


def test_columns_of_one_matrix_are_independent_too() -> None:
    source = _source(0, 10)
    spec = TensorSpec(BY_CODE["F32"], (2, 2))
    tensors = {name: Leaf.strided(spec, source, 8 * i, (4, 1)) for i, name in enumerate(["q", "k"])}
    decided = decide(Applied(found(tensors)), None)
    assert (decided.ties, decided.findings) == ((), ())


def test_overlaps_are_copied_and_said() -> None:
    source = _source(0, 10, size=6)
    spec = TensorSpec(BY_CODE["F32"], (8,))
    tensors = {"a": Leaf.packed(spec, source, 0), "b": Leaf.packed(spec, source, 16)}
    decided = decide(Applied(found(tensors)), None)
    assert list(decided.checkpoint) == ["a", "b"]
    (finding,) = decided.findings
    assert (finding.level, finding.check) == ("info", "ties")
    assert "a and b" in finding.message


def test_many_overlaps_are_folded() -> None:
    source = Memory(bytes(1000))
    spec = TensorSpec(BY_CODE["F32"], (8,))
    tensors = {f"w{i}": Leaf.packed(spec, source, 8 * i) for i in range(20)}
    (finding,) = decide(Applied(found(tensors)), None).findings
    assert finding.message.endswith("; and more")
    assert len(finding.message) < 250


EQUAL = {"model.embed_tokens.weight": 0, "lm_head.weight": 1}


def test_equal_values_under_a_tied_configuration_are_a_tie() -> None:
    decided = _decided(_source(5, 5), EQUAL, TIED)
    assert _pairs(decided) == [("model.embed_tokens.weight", "lm_head.weight")]
    assert "equal values under a tied configuration" in decided.findings[0].message


@pytest.mark.parametrize("config", [None, {}, UNTIED, {"tie_word_embeddings": "yes"}])
def test_equal_values_without_a_word_of_a_tie_are_two_tensors(config: Any) -> None:
    source = _source(5, 5)
    decided = _decided(source, EQUAL, config)
    assert (decided.ties, decided.findings) == ((), ())
    assert source.read == 0


@pytest.mark.parametrize("part", ["text_config", "decoder"])
def test_the_configuration_may_say_it_further_down(part: str) -> None:
    assert _pairs(_decided(_source(5, 5), EQUAL, {part: TIED}))


def test_different_values_under_a_tied_configuration_are_kept_and_said() -> None:
    decided = _decided(_source(5, 6), EQUAL, TIED)
    assert decided.ties == ()
    assert list(decided.checkpoint) == list(EQUAL)
    (finding,) = decided.findings
    assert (finding.level, finding.subject) == ("warning", "lm_head.weight")
    assert "differs from model.embed_tokens.weight" in finding.message


def test_equal_values_of_other_tensors_are_no_tie() -> None:
    decided = _decided(_source(5, 5), {"a.weight": 0, "b.weight": 1}, TIED)
    assert decided.ties == ()


def test_one_storage_that_the_configuration_calls_untied_is_written_twice() -> None:
    decided = _decided(_source(5), {"model.embed_tokens.weight": 0, "lm_head.weight": 0}, UNTIED)
    assert decided.ties == ()
    assert len(decided.checkpoint) == 2
    (finding,) = decided.findings
    assert (finding.level, finding.subject) == ("warning", "lm_head.weight")
    assert "both are written" in finding.message


def test_tensors_of_no_bytes_are_never_tied() -> None:
    leaf = Leaf.packed(TensorSpec(BY_CODE["F32"], (0, 2)), _source(0), 0)
    decided = decide(Applied(found({"a": leaf, "b": leaf})), TIED)
    assert decided.ties == ()


def _claim(source: Memory, kept: int, dropped: int) -> Applied:
    checkpoint = found({"embed.weight": _leaf(source, kept)})
    claim = ClaimedTie(
        "embed.weight",
        "head.weight",
        Entry(_leaf(source, kept), ("embed.weight",)),
        Entry(_leaf(source, dropped), ("head.weight",)),
        "recipe.yaml:5:7",
    )
    return Applied(checkpoint, (), (claim,))


def test_a_tie_step_that_is_right() -> None:
    decided = decide(_claim(_source(5, 5), 0, 1), None)
    assert decided.ties == (Tie("embed.weight", "head.weight"),)
    assert decided.tied is True


def test_a_tie_step_over_different_values_shows_once_values_are_read() -> None:
    with pytest.raises(UserError) as caught:
        decide(_claim(_source(5, 6), 0, 1), None)
    assert caught.value.exit == Exit.VALUES
    assert caught.value.problems[0].subject == "recipe.yaml:5:7"
    assert "hold different values" in str(caught.value)


def test_what_an_untie_step_asked_for_is_written() -> None:
    source = _source(5)
    entries = {
        "model.embed_tokens.weight": Entry(_leaf(source, 0), ("model.embed_tokens.weight",)),
        "lm_head.weight": Entry(
            _leaf(source, 0), ("model.embed_tokens.weight",), ("untie model.embed_tokens.weight",)
        ),
    }
    decided = decide(Applied(Checkpoint(entries)), TIED)
    assert decided.ties == ()
    assert list(decided.checkpoint) == list(entries)
    assert decided.tied is False


def test_drops_before_are_kept_on_record() -> None:
    checkpoint = Checkpoint({"a": Entry(_leaf(_source(0), 0), ("a",))}, (Dropped("b", "drop: b"),))
    assert decide(Applied(checkpoint), None).checkpoint.dropped == (Dropped("b", "drop: b"),)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["lm_head.weight", "transformer.wte.weight"], "transformer.wte.weight"),
        (["lm_head.weight", "model.embed_tokens.weight"], "model.embed_tokens.weight"),
        (["output.weight", "tok_embeddings.weight"], "tok_embeddings.weight"),
        (
            ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "shared.weight"],
            "shared.weight",
        ),
        (
            ["cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"],
            "bert.embeddings.word_embeddings.weight",
        ),
        (
            ["lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"],
            "roberta.embeddings.word_embeddings.weight",
        ),
        (["lm_head.decoder.bias", "lm_head.bias"], "lm_head.bias"),
        (["embed_out.weight", "gpt_neox.embed_in.weight"], "gpt_neox.embed_in.weight"),
        (["b.x", "a.x"], "b.x"),
        (["a.b.c", "a.c"], "a.c"),
    ],
)
def test_the_name_that_is_kept(names: list[str], kept: str) -> None:
    assert kept_name(names) == kept
    assert kept_name(dict.fromkeys(names)) == kept


LANGUAGE_MODEL = {**TIED, "architectures": ["LlamaForCausalLM"]}


@pytest.mark.parametrize(
    ("names", "config", "lost"),
    [
        (["layer.weight"], LANGUAGE_MODEL, True),
        (["layer.weight"], {**TIED, "architectures": ["BertModel"]}, False),
        (["layer.weight"], {**LANGUAGE_MODEL, "tie_word_embeddings": False}, False),
        (["layer.weight"], None, False),
        (["layer.weight", "model.embed_tokens.weight"], LANGUAGE_MODEL, False),
        (["layer.weight", "lm_head.weight"], LANGUAGE_MODEL, False),
    ],
)
def test_a_tied_model_needs_one_of_the_two(names: list[str], config: Any, *, lost: bool) -> None:
    checkpoint = found({name: _leaf(_source(0), 0) for name in names})
    problems = list(lost_ties(checkpoint, config))
    assert [problem.exit for problem in problems] == [Exit.SOURCE] * lost
