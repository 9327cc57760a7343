from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hfconvert.checks.files import check_files
from hfconvert.checks.result import Check
from hfconvert.tensors.source import LocalFile

SOURCE = {
    "config.json": b'{"torch_dtype": "float32", "a": [1, 2.50], "text_config": {"dtype": "float32"}}',
    "tokenizer.json": b"{}\r\n",
    "sub/x.txt": b"",
}
WEIGHTS = "model.safetensors"


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Check]:
    """A result that is right, changed by `spoil`, then checked."""

    def made(
        spoil: Callable[[Path], Any] = lambda _: None,
        *,
        changes: dict[tuple[str, ...], Any] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Check:
        source, folder = tmp_path / "source", tmp_path / "made"
        for root in (source, folder):
            for name, content in SOURCE.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(content)
        save_file({"w": torch.ones(2, dtype=dtype)}, folder / WEIGHTS)
        (folder / ".journal").write_bytes(b"of the run")
        files = [LocalFile.of(source / name, name) for name in SOURCE]
        rewritten = [(file, changes) for file in files if changes and file.name == "config.json"]
        copies = [file for file in files if file not in [one for one, _ in rewritten]]
        spoil(folder)
        return check_files(copies, rewritten, [WEIGHTS], folder)

    return made


def test_a_right_result_passes(check: Callable[..., Check]) -> None:
    done = check()
    assert (done.status, done.detail) == ("pass", "")
    assert done.measured == {"files": 3, "changed": 0, "faults": 0}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", b"{}\n", "tokenizer.json is not what the source holds"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("sub/x.txt", None, "sub/x.txt is missing"),
        ("pytorch_model.bin.index.json", b"{}", "pytorch_model.bin.index.json is too much"),
        ("sub/weights.bin", b"", "sub/weights.bin is too much"),
        (WEIGHTS, None, "model.safetensors is missing"),
    ],
)
def test_files_that_differ_are_missing_or_too_many(
    check: Callable[..., Check], name: str, content: bytes | None, said: str
) -> None:
    def spoil(folder: Path) -> None:
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)

    done = check(spoil)
    assert done.status == "fail"
    assert said in done.detail


@pytest.mark.parametrize(
    ("dtype", "faults"),
    [
        (torch.float32, 0),
        (torch.bfloat16, 2),
        (torch.int64, 0),
    ],
)
def test_the_configuration_is_held_against_the_headers(
    check: Callable[..., Check], dtype: torch.dtype, faults: int
) -> None:
    done = check(dtype=dtype)
    assert done.measured["faults"] == faults
    if faults:
        assert "torch_dtype says float32, stored is bfloat16" in done.detail
        assert "text_config.dtype says float32" in done.detail


CHANGES: dict[tuple[str, ...], Any] = {
    ("torch_dtype",): "bfloat16",
    ("text_config", "dtype"): "bfloat16",
}
RIGHT = {**json.loads(SOURCE["config.json"]), "torch_dtype": "bfloat16"}
RIGHT["text_config"] = {"dtype": "bfloat16"}


def rewritten(document: Any) -> Callable[[Path], Any]:
    text = document if isinstance(document, str) else json.dumps(document)
    return lambda folder: (folder / "config.json").write_text(text)


def test_a_rewritten_configuration(check: Callable[..., Check]) -> None:
    done = check(rewritten(RIGHT), changes=CHANGES, dtype=torch.bfloat16)
    assert (done.status, done.measured["changed"]) == ("pass", 1)


@pytest.mark.parametrize(
    "document",
    [
        {**RIGHT, "a": [1, 2]},
        {**RIGHT, "b": 1},
        {key: value for key, value in RIGHT.items() if key != "a"},
        dict(reversed(RIGHT.items())),
        {**RIGHT, "torch_dtype": "float32"},
        "no JSON",
        "[]",
    ],
    ids=["value", "new key", "lost key", "order", "not changed", "broken", "list"],
)
def test_a_rewritten_configuration_that_differs_elsewhere(
    check: Callable[..., Check], document: Any
) -> None:
    done = check(rewritten(document), changes=CHANGES, dtype=torch.bfloat16)
    assert done.status == "fail"
    assert "config.json" in done.detail


def test_quantised_weights_say_nothing_of_the_dtype(check: Callable[..., Check]) -> None:
    config = {"torch_dtype": "bfloat16", "quantization_config": {"bits": 4}}

    def spoil(folder: Path) -> None:
        for root in (folder, folder.parent / "source"):
            (root / "config.json").write_text(json.dumps(config))

    assert check(spoil).status == "pass"


def test_a_record_of_a_run_that_was_killed_is_no_fault(check: Callable[..., Check]) -> None:
    assert check(lambda folder: (folder / "hfconvert.json").write_text("{}")).status == "pass"
