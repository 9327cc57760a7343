from __future__ import annotations

import json
from pathlib import Path

import pytest

from hfconvert.readers.custom_code import code_beside, code_file, code_findings, references
from hfconvert.tensors.source import LocalFile


def files(root: Path, documents: dict[str, object]) -> list[LocalFile]:
    for name, document in documents.items():
        text = document if isinstance(document, str) else json.dumps(document)
        (root / name).write_text(text)
    return [LocalFile.of(root / name, name) for name in documents]


def test_references_of_every_kind_of_configuration(tmp_path: Path) -> None:
    found = references(
        files(
            tmp_path,
            {
                "config.json": {"auto_map": {"AutoConfig": "conf.C", "AutoModel": "model.M"}},
                "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["tok.Slow", None]}},
                "preprocessor_config.json": {"auto_map": {"AutoProcessor": "proc.P"}},
                "other.json": {"auto_map": {"AutoModel": "not.Asked"}},
            },
        )
    )
    assert found == {
        "conf.C": "config.json",
        "model.M": "config.json",
        "tok.Slow": "tokenizer_config.json",
        "proc.P": "preprocessor_config.json",
    }


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        {},
        {"auto_map": None},
        {"auto_map": 3},
        {"auto_map": {"A": [1, "x"]}},
        "[" * 10**5,
    ],
)
def test_what_names_no_code(tmp_path: Path, document: object) -> None:
    assert references(files(tmp_path, {"config.json": document})) == {}


@pytest.mark.parametrize(
    ("reference", "file"),
    [
        ("modeling_x.X", "modeling_x.py"),
        ("inner.modeling_x.X", "inner/modeling_x.py"),
        ("org/repo--modeling_x.X", None),
    ],
)
def test_where_the_code_is(reference: str, file: str | None) -> None:
    assert code_file(reference) == file


def test_modules_beside_a_configuration_come_along(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.txt"):
        (tmp_path / name).write_text("1/0")
    assert [file.name for file in code_beside(tmp_path, ["a.A"])] == ["a.py", "b.py"]
    assert code_beside(tmp_path, ["org/repo--a.A"]) == ()


def test_what_is_missing_and_what_lies_elsewhere() -> None:
    wanted = {"a.A": "config.json", "b.B": "config.json", "org/repo--c.C": "tokenizer_config.json"}
    missing, elsewhere = code_findings(wanted, ["a.py", "config.json"])
    assert (missing.level, missing.subject) == ("warning", "config.json")
    assert missing.message == "names b.B in auto_map, but b.py is not in the source"
    assert (elsewhere.level, elsewhere.subject) == ("info", "tokenizer_config.json")
    assert "org/repo" in elsewhere.message
