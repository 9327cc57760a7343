"""The whole job: one pull request with its proof; the second run finds it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load

from tests.hub.loopback.server import RunningHub

TITLE = "Adding `safetensors` variant of this model"


def content(repo: Any, path: str, revision: str = "refs/pr/1") -> bytes:
    blob = repo.resolve(revision).files[path].blob
    return bytes(blob.read(0, blob.size))


def text_of(comment: Any) -> str:
    return str(comment.data["latest"]["raw"])


def test_one_pull_request_and_the_second_run_finds_it(
    hub: RunningHub, repo: Any, run: Any, transfer: str, home: Path, state: dict[str, torch.Tensor]
) -> None:
    head, before = repo.head.id, dict(repo.head.files)
    done = run()
    assert (done.code, done.status) == (0, "converted"), done.said
    [opened] = repo.discussions
    assert (opened.title, opened.status, opened.author) == (TITLE, "open", "owner")
    commits = list(repo.history(repo.resolve("refs/pr/1")))
    assert commits[1].id == head
    assert done.publish == {
        "repo": "owner/m",
        "pr_url": f"{hub.endpoint}/owner/m/discussions/1",
        "pr_number": 1,
        "commit": commits[0].id,
    }
    changed = {path: file for path, file in commits[0].files.items() if before.get(path) != file}
    assert changed.keys() == {"model.safetensors"}
    assert before.keys() <= commits[0].files.keys()
    found = load(content(repo, "model.safetensors"))
    assert found.keys() == state.keys() - {"lm_head.weight"}
    assert all(torch.equal(found[name], state[name]) for name in found)
    assert (commits[0].files["model.safetensors"].xet is not None) == (transfer == "xet")
    assert repo.head.id == head
    assert list(home.glob("*[!k]")) == []  # but for the lock

    again = run()
    assert (again.code, again.status) == (0, "up-to-date")
    assert again.publish == done.publish
    assert "proposed there already" in again.findings("info")
    assert len(repo.discussions) == 1
    assert len(opened.comments) == 2
    assert hub.log.leaks == []


def test_the_second_run_uploads_and_makes_nothing(hub: RunningHub, repo: Any, run: Any) -> None:
    run()
    hub.log.clear()
    again = run()
    assert again.status == "up-to-date"
    written = [one.path for one in hub.log.records if one.method not in ("GET", "HEAD")]
    assert [path for path in written if not path.endswith("/preupload/main")] == []  # the probe
    assert hub.log.find(path=r"write-token|[^e]upload/") == []


def test_the_body_says_what_and_why_and_proves_it(repo: Any, run: Any) -> None:
    done = run()
    body, invitation = map(text_of, repo.discussions[0].comments)
    data = content(repo, "model.safetensors")
    sha256 = hashlib.sha256(data).hexdigest()
    assert f"| `model.safetensors` | 5.74 kB | `{sha256}` |" in body
    for words in (
        "with the same names, dtypes and values",
        "`lm_head.weight` is `transformer.wte.weight`",
        "A pickle can execute code",
        f"/owner/m/tree/{repo.head.id}",
        "| `tensors` | passed | tensors 16, values 1,080, different 0 |",
        "`pytorch_model.bin`: inert: `torch._utils._rebuild_tensor_v2`",
        "Nothing was deleted; every file that was there stays.",
        "The check `logits` was skipped",
        "Close this pull request: hfconvert will not open another one here",
    ):
        assert words in body
    [marker] = re.findall(r"<!-- hfconvert: (.*) -->", body)
    assert json.loads(marker)["v"] == 1
    assert json.loads(marker)["digest"] == done.document["digest"]
    assert 'GPT2LMHeadModel.from_pretrained("owner/m", revision="refs/pr/1")' in invitation
    assert f"hfconvert verify owner/m@{repo.head.id} owner/m@refs/pr/1" in invitation


def test_the_report_is_the_same_in_a_file_and_as_text(repo: Any, run: Any, tmp_path: Path) -> None:
    done = run("--report", str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text())["publish"] == done.publish


def test_an_output_folder_that_is_asked_for_is_kept(
    hub: RunningHub, repo: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run("--output", str(out))
    assert done.document["output"] == str(out)
    assert (out / "model.safetensors").read_bytes() == content(repo, "model.safetensors")
    record = json.loads((out / "hfconvert.json").read_text())
    assert record["report"]["publish"] == done.publish


def test_a_folder_that_is_there_is_published_as_it_was_proved(
    repo: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("--output", str(out), "--no-publish").document["publish"] is None
    assert repo.discussions == []
    done = run("--output", str(out))
    assert (done.code, done.status) == (0, "converted")
    assert "| `tensors` | passed |" in text_of(repo.discussions[0].comments[0])


def test_a_folder_that_was_changed_since_is_not_published(
    repo: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("--output", str(out), "--no-publish")
    weights = out / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    done = run("--output", str(out))
    assert done.code == 1
    assert "not the one that was checked" in done.findings()
    assert repo.discussions == []


def test_no_publish_and_dry_run_need_no_token(
    hub: RunningHub, repo: Any, run: Any, tmp_path: Path
) -> None:
    for option in ("--no-publish", "--dry-run"):
        done = run(option, "--output", str(tmp_path / option), token=None)
        assert done.code == 0, done.said
        assert done.document["publish"] is None
    assert hub.log.find("POST") == []


def test_shards_with_their_index(repo: Any, run: Any) -> None:
    done = run(output={"max_shard_size": "2KB"})
    assert done.code == 0, done.findings()
    files = repo.resolve("refs/pr/1").files
    shards = [path for path in files if path.endswith(".safetensors")]
    assert len(shards) > 2
    index = json.loads(content(repo, "model.safetensors.index.json"))
    assert set(index["weight_map"].values()) == set(shards)


def test_a_subfolder_keeps_its_place(hub: RunningHub, run: Any, files: dict[str, bytes]) -> None:
    repo = hub.repo("owner/m", {f"text/{path}": data for path, data in files.items()})
    source = {"repo": "owner/m", "subfolder": "text"}
    done = run(source=source)
    assert done.code == 0, done.findings()
    added = repo.resolve("refs/pr/1").files.keys() - repo.head.files.keys()
    assert added == {"text/model.safetensors"}
    assert 'subfolder="text"' in text_of(repo.discussions[0].comments[1])
    assert run(source=source).status == "up-to-date"
