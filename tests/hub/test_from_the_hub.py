"""A source on the Hub, through the real client: planned by ranges, run from whole verified files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.inspect.facts import inspect_files
from hfconvert.making import room
from hfconvert.preview import plan
from hfconvert.recipe import parse
from hfconvert.report.documents import plan_document, report_document
from hfconvert.run import run
from hfconvert.sourcing import list_what
from hfconvert.verifying.verify import verify
from tests.hub.loopback.faults import Truncate
from tests.hub.loopback.server import RunningHub

RECIPE = "version: 1\nsource: {repo: owner/m}\n"


def _files(tmp_path: Path) -> dict[str, bytes]:
    """A sharded pickle of 8 MB in two files, with an index, a configuration and leftovers of training."""
    torch.manual_seed(0)
    shards = {
        f"pytorch_model-0000{number}-of-00002.bin": {
            f"layers.{number}.{part}": torch.randn(512, 1024) for part in "ab"
        }
        for number in (1, 2)
    }
    files = {}
    for name, tensors in shards.items():
        torch.save(tensors, tmp_path / name)
        files[name] = (tmp_path / name).read_bytes()
    weight_map = {key: name for name, tensors in shards.items() for key in tensors}
    index = {"metadata": {"total_size": 8 << 20}, "weight_map": weight_map}
    files["pytorch_model.bin.index.json"] = json.dumps(index).encode()
    files["config.json"] = b'{"model_type": "x", "torch_dtype": "float32"}'
    files["optimizer.pt"] = bytes(3 << 20)
    return files


@pytest.fixture
def repo(hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    files = _files(tmp_path)
    hub.repo("owner/m", files)
    monkeypatch.setenv("HF_TOKEN", hub.token())
    hub.log.clear()
    return files


def test_a_plan_reads_a_few_kilobytes(hub: RunningHub, repo: dict[str, bytes]) -> None:
    planned = plan(parse(RECIPE, "recipe.yaml"))
    document = plan_document(planned)
    assert document["source"]["repo"] == "owner/m"
    assert document["source"]["commit"] == hub.repos["owner/m"].head.id
    assert document["source"]["path"] is None
    assert sorted(item["name"] for item in document["tensors"]) == [
        "layers.1.a",
        "layers.1.b",
        "layers.2.a",
        "layers.2.b",
    ]
    weights = sum(len(repo[name]) for name in repo if name.endswith("of-00002.bin"))
    assert document["download_bytes"] == weights
    assert hub.log.sent() < 600_000
    assert document["digest"] is not None


def test_a_run_equals_that_of_a_local_copy(
    hub: RunningHub, repo: dict[str, bytes], tmp_path: Path
) -> None:
    planned = plan(parse(RECIPE, "recipe.yaml"))
    recipe = parse(RECIPE, "recipe.yaml", [f"output.path={tmp_path / 'out'}"])
    report = run(recipe, Console(-1))
    document = report_document(report)
    assert document["status"] == "converted"
    assert document["source"]["repo"] == "owner/m"
    assert document["digest"] == planned.digest
    assert all(check["status"] in {"pass", "skipped"} for check in document["checks"])
    written = load_file(tmp_path / "out" / "model.safetensors")
    for name in repo:
        if name.endswith("of-00002.bin"):
            for key, tensor in torch.load(tmp_path / name, weights_only=True).items():
                assert torch.equal(written[key], tensor)
    again = run(recipe, Console(-1))
    assert report_document(again)["status"] == "up-to-date"


def test_nothing_is_fetched_to_a_disk_that_is_too_small(
    hub: RunningHub, repo: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _: 16_000_000)  # enough for one of the two
    text = f"{RECIPE}output: {{path: {tmp_path / 'out'}}}\n"
    with pytest.raises(UserError, match=r"needs 16\.8 MB of disk, and 16\.0 MB are free") as caught:
        run(parse(text, "recipe.yaml"), Console(-1))
    assert caught.value.exit == Exit.RESOURCES
    assert hub.log.sent(r"\.bin") < 1_000_000


def test_a_shard_that_the_index_names_and_nobody_uploaded(
    hub: RunningHub, repo: dict[str, bytes]
) -> None:
    hub.push("owner/m", {"pytorch_model-00002-of-00002.bin": None})
    with pytest.raises(UserError) as caught:
        plan(parse(RECIPE, "recipe.yaml"))
    assert caught.value.exit == Exit.SOURCE
    assert "pytorch_model-00002-of-00002.bin" in str(caught.value)


def test_a_repository_that_is_not_there(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token())
    with pytest.raises(UserError) as caught:
        plan(parse("version: 1\nsource: {repo: owner/none}\n", "recipe.yaml"))
    assert caught.value.exit == Exit.HUB


def test_a_file_that_arrives_short_is_fetched_again(
    hub: RunningHub, repo: dict[str, bytes], tmp_path: Path
) -> None:
    hub.faults.add("GET", "pytorch_model-00001", Truncate(1000))
    recipe = parse(RECIPE, "recipe.yaml", [f"output.path={tmp_path / 'out'}"])
    assert report_document(run(recipe, Console(-1)))["status"] == "converted"


def test_a_conversion_on_a_branch_is_verified_against_its_source(
    hub: RunningHub, repo: dict[str, bytes], tmp_path: Path
) -> None:
    run(parse(RECIPE, "recipe.yaml", [f"output.path={tmp_path / 'out'}"]), Console(-1))
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    made.pop("hfconvert.json")
    hub.repo("owner/converted", made)
    report = verify("owner/m", "owner/converted@main", None, Console(-1))
    assert report.status == "verified"
    assert report_document(report)["source"]["commit"] == hub.repos["owner/m"].head.id
    weights = bytearray(made["model.safetensors"])
    weights[-1] ^= 1
    hub.push("owner/converted", {"model.safetensors": bytes(weights)})
    assert verify("owner/m", "owner/converted", None, Console(-1)).status == "failed"


def test_a_repository_is_inspected_by_ranges(hub: RunningHub, repo: dict[str, bytes]) -> None:
    document = inspect_files(list_what("owner/m"))
    assert (document["kind"], document["format"]) == ("model", "torch")
    assert document["totals"]["parameters"] == 4 * 512 * 1024
    assert sorted(file["file"] for file in document["files"]) == sorted(repo)
    assert document["safe"] is True
    assert hub.log.sent() < 1_500_000
