"""The zoo: a tiny model of every type that transformers knows, pickled, converted or merged, loaded, equal.

The figure is the share of those that can be built. What does not come through is explained by name in
`exceptions.py`, and a fault of transformers is only what its class gets wrong without hfconvert as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.zoo.classes import kinds
from tests.zoo.exceptions import EXPLAINED, Explained
from tests.zoo.figures import Figure
from tests.zoo.round_trips import Proof, compared
from tests.zoo.runner import Answer, prove
from tests.zoo.tiny import build

LEAST = 0.9
# Fewer mean that the zoo is broken, not that models are rare.
BUILT = {"convert": 700, "merge": 670}


@pytest.mark.slow
@pytest.mark.parametrize("proof", sorted(EXPLAINED))
def test_nine_of_ten_types_come_through(proof: str, capsys: pytest.CaptureFixture[str]) -> None:
    figure = Figure(proof, prove(kinds(), proof), EXPLAINED[proof])
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *figure.lines(), ""]))
    assert len(figure.built) >= BUILT[proof]
    assert figure.share >= LEAST
    assert figure.wrong() == []


@pytest.mark.filterwarnings("ignore")
def test_one_value_that_is_another_is_noticed(tmp_path: Path) -> None:
    model = build("bert")
    model.save_pretrained(tmp_path)
    assert compared(model, model.state_dict(), tmp_path) == Proof()
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    name = "bert.encoder.layer.1.output.dense.weight"
    tensors[name][3, 5] += 1e-8
    save_file(tensors, file, {"format": "pt"})
    assert compared(model, model.state_dict(), tmp_path, bound=3e-8) == Proof(near=1)
    assert compared(model, model.state_dict(), tmp_path).why.startswith("1 differ by up to")
    save_file({key: one for key, one in tensors.items() if key != name}, file, {"format": "pt"})
    assert compared(model, model.state_dict(), tmp_path).why == f"missing_keys: ['{name}']"


def test_the_figure_and_what_is_wrong_with_it() -> None:
    explained = {
        "mended": Explained("hfconvert", "was wrong once"),
        "ours": Explained("transformers", "its class loses it"),
        "theirs": Explained("transformers", "its class loses it"),
    }
    answers = [
        Answer("fine"),
        Answer("mended"),
        Answer("near", near=2),
        Answer("ours", why="1 differ"),
        Answer("part", not_built="a part of another type"),
        Answer("theirs", why="1 differ", alone="1 differ"),
        Answer("unknown", why="exit 3"),
    ]
    figure = Figure("convert", answers, explained)
    assert figure.share == 0.5
    assert list(figure.lines()) == [
        "convert: 3 of 6 types came through (50.0%)",
        "  of them 2 bit for bit; some tensors within the bound: near",
        "  ours: transformers: its class loses it",
        "    1 differ",
        "  theirs: transformers: its class loses it",
        "    1 differ",
        "    without hfconvert: 1 differ",
        "  unknown: UNEXPLAINED",
        "    exit 3",
        "  built 6 of 7 types; 1 could not be:",
        "    1 a part of another type: part",
    ]
    assert figure.wrong() == [
        "ours comes through without hfconvert: it is a fault of ours",
        "unknown is not explained: exit 3",
        "mended is explained and no exception any more",
    ]
