"""A run as a function: what it returns, what it leaves on disk, when it does nothing and when it refuses."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hfconvert import recipe as recipes
from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.making import make as module
from hfconvert.making.results import recorded_outputs
from hfconvert.making.work import RECORD
from hfconvert.preview import dry_run, plan
from hfconvert.proving.prove import prove
from hfconvert.report.model import Report
from hfconvert.run import ChecksFailedError, run

QUIET = Console(verbosity=-1)
STATE = {f"layer.{i}.weight": torch.arange(12.0).reshape(3, 4) * (i + 1) for i in range(4)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four pickled tensors and two side files."""
    folder = tmp_path / "source"
    folder.mkdir()
    torch.save(STATE, folder / "pytorch_model.bin")
    (folder / "config.json").write_text('{"torch_dtype": "float32"}')
    (folder / "notes.txt").write_text("notes")
    return folder


Convert = Callable[..., Report]


@pytest.fixture
def convert(tmp_path: Path, source: Path) -> Convert:
    """Run the recipe of the test, changed by what is given."""

    def act(act: Callable[..., Report] = run, **parts: Any) -> Report:
        document = {
            "version": 1,
            "source": {"path": str(source)},
            "output": {"path": str(tmp_path / "out"), "max_shard_size": "100B"},
            **parts,
        }
        text = json.dumps(document)
        recipe = recipes.parse(text, str(tmp_path / "recipe.yaml"))
        return act(recipe, QUIET) if act is run else act(recipe)

    return act


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _refusal(convert: Convert, code: Exit, **parts: Any) -> str:
    with pytest.raises(UserError) as caught:
        convert(**parts)
    assert caught.value.exit == code
    return str(caught.value)


def test_the_report_says_what_was_written(convert: Convert, tmp_path: Path) -> None:
    report = convert()
    out = tmp_path / "out"
    assert report.status == "converted"
    assert report.output == str(out)
    assert {check.name: check.status for check in report.checks if check.status != "skipped"} == {
        "names": "pass",
        "tensors": "pass",
        "files": "pass",
        "dtypes": "pass",
    }
    assert {output.file: output.size for output in report.outputs} == {
        name: len(content) for name, content in _files(out).items() if name != RECORD
    }
    read = {
        name: one for path in out.glob("*.safetensors") for name, one in load_file(path).items()
    }
    assert read.keys() == STATE.keys()
    assert all(torch.equal(read[name], STATE[name]) for name in STATE)


def test_a_bounded_disk_is_none_where_nothing_takes_the_shards(
    convert: Convert, tmp_path: Path
) -> None:
    report = convert(output={"path": str(tmp_path / "out"), "disk": "bounded"})
    (finding,) = (one for one in report.findings if one.check == "output")
    assert finding.level == "warning"
    assert "every shard stays on this disk" in finding.message
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_the_record_knows_digest_report_and_sources(
    convert: Convert, tmp_path: Path, source: Path
) -> None:
    report = convert()
    record = json.loads((tmp_path / "out" / RECORD).read_bytes())
    assert record["digest"] == report.digest
    assert record["report"]["status"] == "converted"
    assert recorded_outputs(record) == report.outputs
    assert {Path(file["path"]) for file in record["files"]} == set(source.iterdir())


def test_the_source_is_only_read(convert: Convert, source: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in source.iterdir()}
    convert()
    assert {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in source.iterdir()
    } == before


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_second_run_does_nothing_and_reads_next_to_nothing(
    convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = convert()
    before = _times(tmp_path / "out")
    second = convert()
    assert second.status == "up-to-date"
    assert (second.digest, second.outputs) == (first.digest, first.outputs)
    assert _times(tmp_path / "out") == before
    assert not (tmp_path / ".out.hfconvert").exists()


def _touched(source: Path) -> Path:
    os.utime(source / "pytorch_model.bin", ns=(0, 12345))
    return source


def _moved(source: Path) -> Path:
    return source.rename(source.with_name("elsewhere"))


def _copied(source: Path) -> Path:
    return Path(shutil.copytree(source, source.with_name("copy")))


@pytest.mark.parametrize("change", [_touched, _moved, _copied])
def test_the_same_content_under_other_times_and_paths_is_up_to_date(
    convert: Convert, source: Path, change: Callable[[Path], Path]
) -> None:
    first = convert()
    second = convert(source={"path": str(change(source))})
    assert second.status == "up-to-date"
    assert second.digest == first.digest


def _other_values(source: Path) -> dict[str, Any]:
    torch.save({**STATE, "layer.0.weight": torch.ones(3, 4)}, source / "pytorch_model.bin")
    return {}


def _other_side_file(source: Path) -> dict[str, Any]:
    (source / "notes.txt").write_text("others")
    return {}


def _one_file_more(source: Path) -> dict[str, Any]:
    (source / "more.txt").write_text("more")
    return {}


def _other_recipe(_: Path) -> dict[str, Any]:
    return {"dtype": "bfloat16"}


def _missing_output(source: Path) -> dict[str, Any]:
    (source.parent / "out" / "config.json").unlink()
    return {}


def _shorter_output(source: Path) -> dict[str, Any]:
    path = min((source.parent / "out").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1])
    return {}


def _strange_record(source: Path) -> dict[str, Any]:
    (source.parent / "out" / RECORD).write_text('{"report": [], "files": {}, "digest": 1}')
    return {}


def _broken_record(source: Path) -> dict[str, Any]:
    (source.parent / "out" / RECORD).write_text("{")
    return {}


CHANGES = [
    _other_values,
    _other_side_file,
    _one_file_more,
    _other_recipe,
    _missing_output,
    _shorter_output,
    _strange_record,
    _broken_record,
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_output_of_something_else_is_refused_and_stays(
    convert: Convert, source: Path, tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    convert()
    parts = change(source)
    before = _files(tmp_path / "out")
    assert "it is not empty" in _refusal(convert, Exit.RECIPE, **parts)
    assert _files(tmp_path / "out") == before
    assert not (tmp_path / ".out.hfconvert").exists()


def test_the_same_inputs_make_the_same_bytes(convert: Convert, tmp_path: Path) -> None:
    convert()
    convert(output={"path": str(tmp_path / "again"), "max_shard_size": "100B"})
    one, other = _files(tmp_path / "out"), _files(tmp_path / "again")
    del one[RECORD], other[RECORD]
    assert one == other


def test_a_value_that_arrives_wrong_fails_the_run_and_leaves_nothing(
    convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def flipping(descriptor: int, view: memoryview, offset: int) -> int:
        if offset and len(view):
            spoilt = bytearray(view)
            spoilt[len(spoilt) // 2] ^= 1
            return pwrite(descriptor, spoilt, offset)
        return pwrite(descriptor, view, offset)

    monkeypatch.setattr(os, "pwrite", flipping)
    with pytest.raises(ChecksFailedError) as caught:
        convert()
    report = caught.value.report
    assert (report.status, report.output) == ("failed", None)
    assert {check.name for check in report.checks if check.status == "fail"} == {"tensors"}
    (error,) = (finding for finding in report.findings if finding.level == "error")
    assert error.check == "tensors"
    assert "layer.1.weight differs first at (0, 0)" in error.message
    assert {path.name for path in tmp_path.iterdir()} == {"source"}


def test_values_that_are_not_to_be_checked_are_not(
    convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "compare_file", None)
    report = convert(validate={"tensors": "off"})
    (check,) = (check for check in report.checks if check.name == "tensors")
    assert check.status == "skipped"
    assert check.detail


def test_a_source_that_changes_under_the_run_is_noticed(
    convert: Convert, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*arguments: Any, **options: Any) -> Any:
        os.utime(source / "pytorch_model.bin", ns=(0, 12345))
        return prove(*arguments, **options)

    monkeypatch.setattr(module, "prove", meanwhile)
    assert "the file changed while it was read" in _refusal(convert, Exit.SOURCE)
    assert {path.name for path in tmp_path.iterdir()} == {"source"}


def test_a_dry_run_and_a_plan_write_nothing(convert: Convert, tmp_path: Path) -> None:
    report = convert(dry_run)
    assert (report.status, report.outputs, report.checks) == ("planned", (), ())
    assert report.output == str(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"source"}
    converted = convert()
    assert converted.digest == report.digest, "a plan's digest is that of the run"
    planned = convert(plan)
    assert planned.digest == report.digest


def test_what_a_plan_says_is_what_a_run_writes(convert: Convert, tmp_path: Path) -> None:
    planned: Any = convert(plan)
    convert()
    written = {name: len(content) for name, content in _files(tmp_path / "out").items()}
    del written[RECORD]
    assert {shard.file: shard.size for shard in planned.shards}.items() <= written.items()
    assert sum(written.values()) == planned.output_bytes


def test_the_output_has_a_name_of_its_own_where_the_recipe_gives_none(
    convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert convert(output={}).output == "source-float32"
    assert convert(output={}, dtype="bfloat16").output == "source-bfloat16"
    one = str(tmp_path / "source" / "pytorch_model.bin")
    assert convert(source={"path": one}, output={}).output == "pytorch_model-float32"
    assert {path.name for path in tmp_path.iterdir()} == {
        "source",
        "source-float32",
        "source-bfloat16",
        "pytorch_model-float32",
    }


def test_a_result_inside_its_source_changes_nothing_about_the_source(
    convert: Convert, source: Path
) -> None:
    inside = {"path": str(source / "out")}
    first = convert(output=inside)
    second = convert(output=inside)
    assert (first.status, second.status) == ("converted", "up-to-date")
    assert not (source / "out" / "out").exists()
