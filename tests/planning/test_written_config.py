from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hfconvert.console import Console
from hfconvert.keymap.families import table
from hfconvert.recipe import parse
from hfconvert.run import run

TABLE = """
about: a test
options:
  heads: {about: Attention heads., from: [args.heads], default: 2}
  tied: {about: whether the head is the embedding, default: true}
signature: ["h.*"]
steps:
  - rename: {"h.*": "model.*"}
config:
  architectures: [SomeModel]
  model_type: some
  num_attention_heads: "${options.heads}"
  tie_word_embeddings: "${options.tied}"
"""


@pytest.fixture(autouse=True)
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "some.yaml").write_text(TABLE)
    monkeypatch.setattr(table, "FOLDER", tmp_path / "tables")


def _run(folder: Path, **files: Any) -> Any:
    source = folder / "source"
    source.mkdir()
    save_file({"h.w": np.ones((2, 2), np.float16)}, source / "weights.safetensors")
    for name, content in files.items():
        (source / f"{name}.json").write_text(json.dumps(content))
    text = (
        "version: 1\nsource: {path: source}\nkey_map: [{family: {name: some}}]\n"
        "output: {path: out}\nvalidate: {logits: off, architecture: off}\n"
    )
    return run(parse(text, str(folder / "recipe.yaml")), Console(verbosity=-1))


def test_a_source_without_a_configuration_gets_the_familys(tmp_path: Path) -> None:
    report = _run(tmp_path)
    assert report.status == "converted"
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {
        "architectures": ["SomeModel"],
        "model_type": "some",
        "num_attention_heads": 2,
        "tie_word_embeddings": True,
        "dtype": "float16",
    }
    assert set(load_file(tmp_path / "out" / "model.safetensors")) == {"model.w"}
    said = [(one.subject, one.message) for one in report.findings]
    assert any(subject == "config.json" and "written from" in text for subject, text in said)
    assert any("`heads` is taken as `2`" in text for _, text in said)
    assert any("`tied` is taken as" in text for _, text in said)


def test_a_configuration_of_the_source_stays(tmp_path: Path) -> None:
    report = _run(tmp_path, config={"model_type": "mine"})
    assert report.status == "converted"
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {"model_type": "mine"}
