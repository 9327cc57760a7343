"""A bounded disk: what a source file is read for, and two shards; each is proved, sent, and dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from hfconvert.making import make as making
from hfconvert.publishing import permitted
from tests.hub.loopback.faults import Call, Say
from tests.hub.loopback.server import RunningHub

COUNT, SHARD = 12, 400_000  # tensors, and bytes of each
OUTPUT = {"disk": "bounded", "max_shard_size": "450KB"}


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {f"layer.{i}.weight": torch.randn(100, 1000) for i in range(COUNT)}


@pytest.fixture
def large(hub: RunningHub, tensors: dict[str, torch.Tensor], tmp_path: Path) -> Any:
    """Twelve tensors of 400 kB in three pickles, with an index."""
    files: dict[str, bytes] = {"config.json": b"{}", "README.md": b"# Words\n"}
    weight_map: dict[str, str] = {}
    for number in range(3):
        name = f"pytorch_model-{number + 1:05}-of-00003.bin"
        part = {key: tensors[key] for key in list(tensors)[number * 4 : number * 4 + 4]}
        torch.save(part, tmp_path / name)
        files[name] = (tmp_path / name).read_bytes()
        weight_map |= dict.fromkeys(part, name)
        (tmp_path / name).unlink()
    index = {"metadata": {}, "weight_map": weight_map}
    files["pytorch_model.bin.index.json"] = json.dumps(index).encode()
    return hub.repo("owner/m", files)


def on_disk(*folders: Path) -> int:
    """Bytes of files in the folders, and of files without a name that this process holds open."""
    named = sum(path.stat().st_size for one in folders for path in one.rglob("*") if path.is_file())
    spooled = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            if "hfconvert-" in str(link.readlink()) and "deleted" in str(link.readlink()):
                spooled += link.stat().st_blocks * 512
        except OSError:
            continue
    return named + spooled


def opened(repo: Any, tensors: dict[str, torch.Tensor]) -> None:
    """The pull request holds exactly these tensors, in twelve shards."""
    files = repo.resolve("refs/pr/1").files
    shards = sorted(path for path in files if path.endswith(".safetensors"))
    assert len(shards) == COUNT
    found: dict[str, torch.Tensor] = {}
    for path in shards:
        found |= load(files[path].blob.read(0, files[path].blob.size))
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert list(repo.history(repo.resolve("refs/pr/1")))[1].id == repo.head.id


def test_no_more_than_a_source_file_and_two_shards_lie_on_disk(
    hub: RunningHub,
    large: Any,
    run: Any,
    home: Path,
    cache: Path,
    transfer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampled: list[int] = []
    pwrite = os.pwrite

    def sampling(*arguments: Any) -> int:
        count = pwrite(*arguments)
        sampled.append(on_disk(home, cache))
        return count

    monkeypatch.setattr(os, "pwrite", sampling)
    hub.faults.add(
        "POST|PUT",
        r"/upload/|/commit/|preupload",
        Call(lambda _: sampled.append(on_disk(home, cache))),
        times=None,
    )
    done = run(output=OUTPUT)
    assert (done.code, done.status) == (0, "converted"), done.findings()
    assert len(large.resolve("refs/pr/1").files) > COUNT
    small = 40_000  # index, configuration, journal, headers, directories of archives
    assert SHARD < max(sampled) < 3 * SHARD + 2 * small
    assert len(sampled) > 3 * COUNT
    assert [path for path in home.rglob("*") if path.suffix != ".lock"] == []
    checks = {check["name"]: check["status"] for check in done.document["checks"]}
    assert (checks["names"], checks["tensors"], checks["files"]) == ("pass", "pass", "pass")
    assert checks["logits"] == "skipped"
    assert run(output=OUTPUT).status == "up-to-date"


def test_its_bytes_and_digest_are_those_of_a_normal_run(
    hub: RunningHub, large: Any, run: Any, tmp_path: Path
) -> None:
    normal = run(
        "--output", str(tmp_path / "out"), "--no-publish", output={"max_shard_size": "450KB"}
    )
    done = run(output=OUTPUT)
    assert done.document["digest"] == normal.document["digest"]
    one, other = (
        {item["file"]: item["sha256"] for item in document["outputs"]}
        for document in (done.document, normal.document)
    )
    assert one == other


def test_it_is_chosen_where_the_disk_is_too_small_and_said(
    hub: RunningHub,
    large: Any,
    run: Any,
    tensors: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permitted, "free_bytes", lambda _: 4 * SHARD)
    done = run(output={"max_shard_size": "450KB"})
    assert done.code == 0, done.findings()
    assert "the run is bounded" in done.findings("warning")
    assert "the run is bounded" in done.said
    opened(large, tensors)


def test_two_shards_that_do_not_fit_are_said(
    hub: RunningHub, large: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permitted, "free_bytes", lambda _: SHARD)
    done = run(output={"max_shard_size": "450KB"})
    assert done.code == 5
    assert "even with two shards at a time" in done.findings()


def test_an_output_folder_contradicts_it(hub: RunningHub, large: Any, run: Any) -> None:
    done = run(output={**OUTPUT, "path": "./out"})
    assert done.code == 2
    assert "cannot both be had" in done.findings()


def test_without_publishing_every_shard_is_kept(
    hub: RunningHub, large: Any, run: Any, tmp_path: Path
) -> None:
    done = run("--no-publish", "--output", str(tmp_path / "out"), output=OUTPUT)
    assert done.code == 0
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == COUNT


def test_a_local_source(
    hub: RunningHub, run: Any, tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    torch.save(tensors, folder / "pytorch_model.bin")
    publish = {"repo": "owner/copy"}
    done = run(source={"path": str(folder)}, publish=publish, output=OUTPUT)
    assert done.code == 0, done.findings()
    opened(hub.repos["owner/copy"], tensors)
    again = run(source={"path": str(folder)}, publish=publish, output=OUTPUT)
    assert again.status == "up-to-date"


def test_tied_tensors_are_held_before_they_go(
    hub: RunningHub, repo: Any, run: Any, transfer: str
) -> None:
    done = run(output={"disk": "bounded", "max_shard_size": "2KB"})
    assert done.code == 0, done.findings()
    (check,) = (one for one in done.document["checks"] if one["name"] == "names")
    assert (check["status"], check["measured"]["ties"]) == ("pass", 1)


def test_a_value_that_comes_out_wrong_is_not_sent(
    hub: RunningHub, large: Any, run: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, count = os.pwrite, [0]

    def flipping(descriptor: int, view: Any, offset: int) -> int:
        data = bytearray(view)
        if len(data) > SHARD // 2:  # the inner pages of a shard
            count[0] += 1
            if count[0] >= 3:
                data[5] ^= 1
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", flipping)
    done = run(output=OUTPUT)
    assert done.code == 1
    assert large.discussions == []
    assert len(hub.log.find("POST", "preupload")) <= 1 + 2 + 0 * COUNT  # the probe and two shards
    assert [path for path in home.rglob("*") if path.suffix != ".lock"] == []


def test_a_flipped_bit_of_the_source_is_found(
    hub: RunningHub, large: Any, run: Any, tensors: dict[str, torch.Tensor]
) -> None:
    """Ranges have no sha256 of their own: the checksums of the archive stand in."""
    name = "pytorch_model-00002-of-00003.bin"
    data = bytearray(large.head.files[name].blob.read(0, large.head.files[name].blob.size))
    at = data.find(tensors["layer.5.weight"].numpy().tobytes()[:64])
    data[at + 1000] ^= 1
    hub.push("owner/m", {name: bytes(data)})
    done = run(output=OUTPUT)
    assert done.code == 3
    assert "checksum" in done.findings()
    assert large.discussions == []


@pytest.mark.usefixtures("lfs")
def test_an_upload_that_fails_for_good_ends_the_run(
    hub: RunningHub, large: Any, run: Any, waits: list[float], home: Path
) -> None:
    hub.faults.add("PUT", "/upload/", Say(500, "x"), nth=3, times=None)
    done = run(output=OUTPUT)
    assert done.code == 4
    assert large.discussions == []
    hub.faults.clear()
    assert run(output=OUTPUT).code == 0


def _interrupt_after(monkeypatch: pytest.MonkeyPatch, shards: int) -> Callable[[], None]:
    """Let the run be interrupted while that many shards have been handed on."""
    real, seen = making.Looks.look_at, [0]

    def look_at(self: Any, made: Any) -> Any:
        seen[0] += 1
        if seen[0] > shards:
            raise KeyboardInterrupt
        return real(self, made)

    monkeypatch.setattr(making.Looks, "look_at", look_at)
    return lambda: monkeypatch.setattr(making.Looks, "look_at", real)


@pytest.mark.usefixtures("lfs")
def test_an_interrupted_run_makes_dropped_shards_again_and_sends_nothing_twice(
    hub: RunningHub,
    large: Any,
    run: Any,
    home: Path,
    tensors: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    interrupted: Callable[..., int],
) -> None:
    undo = _interrupt_after(monkeypatch, 5)
    assert interrupted(output=OUTPUT) == 130
    undo()
    [journal] = home.rglob(".hfconvert.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(lines) == 6
    assert all(len(line["sha256"]) == 64 for line in lines[1:])
    assert list(home.rglob("*.safetensors")) == []
    assert run(output=OUTPUT).code == 0
    assert len(hub.log.find("PUT", "/upload/")) == COUNT
    opened(large, tensors)


@pytest.mark.usefixtures("lfs")
def test_a_shard_that_comes_out_differently_the_second_time_is_an_error(
    hub: RunningHub,
    large: Any,
    run: Any,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    interrupted: Callable[..., int],
) -> None:
    undo = _interrupt_after(monkeypatch, 2)
    assert interrupted(output=OUTPUT) == 130
    undo()
    [journal] = home.rglob(".hfconvert.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[1]["sha256"] = "0" * 64
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run(output=OUTPUT)
    assert done.code == 1
    assert "before the interruption" in done.findings()
    assert large.discussions == []
