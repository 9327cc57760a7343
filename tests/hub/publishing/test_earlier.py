"""What was done before is found again: open, stale, merged, closed by its owner, a twin of somebody else."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from huggingface_hub import CommitOperationAdd, HfApi

from tests.hub.loopback.server import RunningHub

TITLE = "Adding `safetensors` variant of this model"
Api = Callable[..., HfApi]


def pickled(state: dict[str, torch.Tensor], factor: float = 1.0) -> bytes:
    buffer = io.BytesIO()
    torch.save({name: tensor * factor for name, tensor in state.items()}, buffer)
    return buffer.getvalue()


def text_of(comment: Any) -> str:
    return str(comment.data["latest"]["raw"])


def statuses(repo: Any) -> list[str]:
    return [one.status for one in repo.discussions]


def test_a_new_source_makes_a_new_one_and_closes_the_old_with_a_pointer(
    hub: RunningHub, repo: Any, run: Any, state: dict[str, torch.Tensor]
) -> None:
    assert run().publish["pr_number"] == 1
    hub.push("owner/m", {"pytorch_model.bin": pickled(state, 2.0)})
    done = run()
    assert (done.code, done.publish["pr_number"]) == (0, 2)
    assert statuses(repo) == ["closed", "open"]
    pointer = text_of(repo.discussions[0].comments[-1])
    assert pointer.startswith("Superseded by #2.")
    assert '"superseded_by":2' in pointer
    assert run().status == "up-to-date"
    assert statuses(repo) == ["closed", "open"]


def test_a_head_that_moved_under_other_files_leaves_it_open(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    run()
    hub.push("owner/m", {".gitattributes": "# New rules", "runs/.events": "x"})
    assert run().status == "up-to-date"
    assert statuses(repo) == ["open"]


@pytest.mark.parametrize("path", ["other.safetensors", "pytorch_model.bin.index.json"])
def test_a_head_that_moved_under_weights_or_index_makes_it_stale(
    hub: RunningHub, repo: Any, run: Any, path: str
) -> None:
    """Of the same digest: what the recipe reads is named by `files`."""
    source = {"repo": "owner/m", "files": ["pytorch_model.bin"]}
    run(source=source)
    hub.push("owner/m", {path: b"{}"})
    done = run(source=source)
    assert done.publish["pr_number"] == 2, done.findings("info")
    assert statuses(repo) == ["closed", "open"]
    assert repo.commits[repo.discussions[1].base].id == repo.head.id


def test_what_was_merged_is_left_alone(hub: RunningHub, repo: Any, run: Any, api: Api) -> None:
    run()
    api().merge_pull_request("owner/m", 1)
    hub.log.clear()
    done = run()
    assert (done.code, done.status, done.publish["pr_number"]) == (0, "up-to-date", 1)
    assert done.publish["commit"] == repo.head.id
    assert statuses(repo) == ["merged"]
    assert hub.log.find("POST", "/commit/") == []


def test_what_its_owner_closed_stays_closed_unless_forced(
    hub: RunningHub, repo: Any, run: Any, api: Api
) -> None:
    run()
    api().change_discussion_status("owner/m", 1, "closed")
    done = run()
    assert (done.code, done.status) == (0, "skipped")
    assert "--force" in done.findings("info")
    assert statuses(repo) == ["closed"]
    assert run("--force").publish["pr_number"] == 2
    assert statuses(repo) == ["closed", "open"]
    assert run().status == "up-to-date"


def test_a_refusal_holds_for_the_next_version_too(
    hub: RunningHub, repo: Any, run: Any, api: Api, state: dict[str, torch.Tensor]
) -> None:
    run()
    api().change_discussion_status("owner/m", 1, "closed")
    hub.push("owner/m", {"pytorch_model.bin": pickled(state, 2.0)})
    assert run().status == "skipped"
    assert statuses(repo) == ["closed"]


def test_a_twin_of_somebody_else_is_not_ours(
    hub: RunningHub, repo: Any, run: Any, api: Api
) -> None:
    """Neither its title nor a copy of our mark makes it ours; it is not touched."""
    done = run()
    mark = text_of(repo.discussions[0].comments[0])
    api().change_discussion_status("owner/m", 1, "closed")
    stranger = api(hub.token("stranger"))
    stranger.create_commit(
        "owner/m",
        [CommitOperationAdd("model.safetensors", b"theirs")],
        commit_message=TITLE,
        commit_description=mark,
        create_pr=True,
        parent_commit=repo.head.id,
    )
    assert done.code == 0
    assert run("--force").publish["pr_number"] == 3
    assert statuses(repo) == ["closed", "open", "open"]
    assert len(repo.discussions[1].comments) == 1


def test_an_own_pull_request_without_the_mark_is_not_ours(
    hub: RunningHub, repo: Any, run: Any, api: Api
) -> None:
    api().create_commit(
        "owner/m",
        [CommitOperationAdd("model.safetensors", b"by hand")],
        commit_message=TITLE,
        create_pr=True,
    )
    assert run().publish["pr_number"] == 2
    assert statuses(repo) == ["open", "open"]


def test_a_repository_that_already_has_these_files_is_up_to_date(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    run()
    blob = repo.resolve("refs/pr/1").files["model.safetensors"].blob
    other = hub.repo("owner/other", {"pytorch_model.bin": b"", "README.md": "x"})
    files = {path: file.blob for path, file in repo.head.files.items()}
    hub.push("owner/other", {**files, "model.safetensors": blob})
    source = {"repo": "owner/other", "files": ["pytorch_model.bin"]}
    done = run(source=source)
    assert (done.code, done.status) == (0, "up-to-date"), done.findings()
    assert done.publish == {
        "repo": "owner/other",
        "pr_url": None,
        "pr_number": None,
        "commit": other.head.id,
    }
    assert other.discussions == []


def test_parts_of_one_repository_do_not_supersede_each_other(
    hub: RunningHub, run: Any, files: dict[str, bytes]
) -> None:
    parts = {f"{part}/{path}": data for part in ("a", "b") for path, data in files.items()}
    repo = hub.repo("owner/m", parts)
    for part in ("a", "b", "a", "b"):
        assert run(source={"repo": "owner/m", "subfolder": part}).code == 0
    assert statuses(repo) == ["open", "open"]


def test_a_comment_that_was_lost_is_made_up_for(repo: Any, run: Any) -> None:
    run()
    [opened] = repo.discussions
    opened.events = [event for event in opened.events if event not in opened.comments[1:]]
    assert len(opened.comments) == 1
    run()
    assert len(opened.comments) == 2
    run()
    assert len(opened.comments) == 2


def test_a_comment_that_says_something_else_is_edited(repo: Any, run: Any) -> None:
    run()
    [opened] = repo.discussions
    said = text_of(opened.comments[1])
    opened.edit(opened.comments[1], said.replace("Try it", "Old words"))
    run()
    assert text_of(opened.comments[1]) == said
    assert len(opened.comments) == 2


def test_an_old_one_that_a_killed_run_left_open_is_closed(
    hub: RunningHub, repo: Any, run: Any, state: dict[str, torch.Tensor]
) -> None:
    run()
    hub.push("owner/m", {"pytorch_model.bin": pickled(state, 2.0)})
    run()
    old = repo.discussions[0]
    old.status = "open"
    old.events = [event for event in old.events if "superseded" not in str(event.data)]
    assert run().status == "up-to-date"
    assert statuses(repo) == ["closed", "open"]


def test_a_resharded_repository_loses_what_loaders_would_read_instead(
    hub: RunningHub, repo: Any, run: Any, api: Api
) -> None:
    run(output={"max_shard_size": "2KB"})
    api().merge_pull_request("owner/m", 1)
    before = set(repo.head.files)
    done = run(source={"repo": "owner/m", "files": ["pytorch_model.bin"]})
    assert done.code == 0, done.findings()
    after = set(repo.resolve("refs/pr/2").files)
    gone = before - after
    assert after - before == {"model.safetensors"}
    assert "model.safetensors.index.json" in gone
    assert all("model-0" in path for path in gone - {"model.safetensors.index.json"})
    assert {"pytorch_model.bin", "README.md", "config.json"} <= after
    body = text_of(repo.discussions[1].comments[0])
    assert "Nothing was deleted but `model-00001-of" in body
