"""To another repository, and by a commit instead of a pull request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, ModelCard

from hfconvert.hub.marker import Marker
from tests.hub.loopback.faults import Drop, LoseAnswer, Say
from tests.hub.loopback.server import RunningHub

TO = {"repo": "owner/copy"}


def content(repo: Any, path: str, revision: str = "refs/pr/1") -> bytes:
    blob = repo.resolve(revision).files[path].blob
    return bytes(blob.read(0, blob.size))


def card_of(repo: Any, revision: str = "refs/pr/1") -> Any:
    return ModelCard(content(repo, "README.md", revision).decode())


def test_it_is_made_in_private_with_side_files_and_a_card(
    hub: RunningHub, repo: Any, run: Any, transfer: str
) -> None:
    done = run(publish=TO)
    assert done.code == 0, done.findings()
    copy = hub.repos["owner/copy"]
    assert copy.private
    assert done.publish["repo"] == "owner/copy"
    assert set(copy.resolve("refs/pr/1").files) == {
        *("README.md", "config.json", "model.safetensors")
    }
    assert content(copy, "config.json") == content(repo, "config.json", "main")
    assert copy.discussions[0].title == "Adding `safetensors` weights of owner/m"
    card = card_of(copy)
    assert (card.data.base_model, card.data.base_model_relation) == ("owner/m", "quantized")
    assert card.data.license == "mit"
    for words in (
        "Its owner's words.",
        f"/owner/m/tree/{repo.head.id}",
        "`W' = W`, bit for bit",
        "| `tensors` | passed |",
        "Versions: python",
        str(done.document["digest"]),
    ):
        assert words in card.text
    assert repo.discussions == []
    assert run(publish=TO).status == "up-to-date"
    assert len(copy.discussions) == 1


def test_it_is_public_where_the_recipe_says_so(hub: RunningHub, repo: Any, run: Any) -> None:
    assert run(publish={**TO, "private": False}).code == 0
    assert not hub.repos["owner/copy"].private


def test_its_own_text_and_metadata_are_kept(hub: RunningHub, repo: Any, run: Any) -> None:
    own = (
        "---\n# a comment\nlicense: apache-2.0   # mine\nbase_model: somebody/else\n---\n\n# Mine\n"
    )
    copy = hub.repo("owner/copy", {"README.md": own})
    assert run(publish=TO).code == 0
    text = content(copy, "README.md").decode()
    head, _, rest = text.removeprefix("---\n").partition("---\n")
    assert head.startswith("# a comment\nlicense: apache-2.0   # mine\nbase_model: somebody/else\n")
    assert rest.startswith("\n# Mine\n\n<!-- hfconvert: begin -->\n")
    assert text.count("## How these weights were made") == 1


def test_a_section_of_ours_is_made_anew_in_its_place(
    hub: RunningHub, repo: Any, run: Any, files: dict[str, bytes]
) -> None:
    publish = {**TO, "how": "commit"}
    run(publish=publish)
    copy = hub.repos["owner/copy"]
    text = content(copy, "README.md", "main").decode() + "\nAfterwards.\n"
    hub.push("owner/copy", {"README.md": text})
    hub.push("owner/m", {"notes.txt": "makes another digest"})
    assert run(publish=publish).status == "converted"
    text = content(copy, "README.md", "main").decode()
    assert text.count("hfconvert: begin") == 1
    assert "Afterwards." in text
    assert "Its owner's words." in text
    assert content(copy, "notes.txt", "main") == b"makes another digest"


def test_weights_of_somebody_else_are_not_written_over(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    copy = hub.repo("owner/copy", {"model.safetensors": b"theirs"})
    done = run(publish=TO)
    assert done.code == 2
    assert "has weights of its own: model.safetensors" in done.findings()
    assert copy.discussions == []
    assert run(publish={**TO, "replace_weights": True}).code == 0


def test_an_existing_one_is_not_made_again(hub: RunningHub, repo: Any, run: Any) -> None:
    """A fine-grained token may not make repositories: it is not tried."""
    hub.repo("owner/copy", {"a.txt": "a"})
    hub.faults.add("POST", "/repos/create", Say(403, "no right to create"), times=None)
    token = hub.token("owner", "fineGrained", scoped={"owner/copy": ("discussion.write",)})
    assert run(publish=TO, token=token).code == 0
    assert hub.log.find("POST", "/repos/create") == []


@pytest.mark.parametrize("fault", [LoseAnswer(), Say(409, "You already created this model repo")])
def test_one_that_somebody_made_meanwhile_is_taken(
    hub: RunningHub, repo: Any, run: Any, fault: Any
) -> None:
    if isinstance(fault, Say):
        from tests.hub.loopback.faults import Call

        fault = Call(lambda _: hub.repo("owner/copy"))
    hub.faults.add("POST", "/repos/create", fault)
    assert run(publish=TO).code == 0
    assert len(hub.log.find("POST", "/repos/create")) == 1


def test_one_that_cannot_be_made(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.faults.add("POST", "/repos/create", Say(403, "no"), times=None)
    done = run(publish=TO)
    assert done.code == 4
    assert "make repositories there" in done.findings()


def test_nothing_is_made_where_the_checks_fail(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.push(
        "owner/m",
        {"config.json": b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}'},
    )
    done = run(publish=TO)
    assert done.code == 1
    assert "owner/copy" not in hub.repos


def test_a_local_source(hub: RunningHub, run: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "secret-place"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    done = run(source={"path": str(folder)}, publish=TO)
    assert done.code == 0, done.findings()
    copy = hub.repos["owner/copy"]
    texts = [
        content(copy, "README.md").decode(),
        *(one.data["latest"]["raw"] for one in copy.discussions[0].comments),
    ]
    assert "local files (`pytorch_model.bin`)" in texts[0]
    assert not any("secret-place" in text or str(tmp_path) in text for text in texts)
    assert card_of(copy).data.base_model is None
    assert run(source={"path": str(folder)}, publish=TO).status == "up-to-date"


def test_a_cast_says_so(hub: RunningHub, repo: Any, run: Any) -> None:
    done = run(publish=TO, dtype="bfloat16")
    assert done.code == 0, done.findings()
    copy = hub.repos["owner/copy"]
    assert "cast from F32 to BF16" in copy.discussions[0].title
    assert "round(W)" in card_of(copy).text
    assert json.loads(content(copy, "config.json"))["torch_dtype"] == "bfloat16"


# --- how: commit


def test_a_commit_with_its_trailer(hub: RunningHub, repo: Any, run: Any, transfer: str) -> None:
    before = repo.head
    done = run(publish={"how": "commit"})
    assert (done.code, done.status) == (0, "converted"), done.findings()
    assert repo.head.parent == before.id
    assert repo.head.title == "Adding `safetensors` variant of this model"
    assert done.publish == {
        "repo": "owner/m",
        "pr_url": None,
        "pr_number": None,
        "commit": repo.head.id,
    }
    last = repo.head.message.splitlines()[-1]
    assert last.startswith("Hfconvert: {")
    assert json.loads(last.partition(" ")[2])["digest"] == done.document["digest"]
    assert repo.discussions == []
    head = repo.head.id
    again = run(publish={"how": "commit"})
    assert (again.status, again.publish["commit"], repo.head.id) == ("up-to-date", head, head)


@pytest.mark.parametrize(
    "fault",
    [Say(412, "moved"), Say(500, "x"), LoseAnswer(), Drop()],
    ids=("412", "500", "lost", "drop"),
)
@pytest.mark.usefixtures("lfs")
def test_a_commit_that_fails_once_is_made_once(
    hub: RunningHub, repo: Any, run: Any, waits: list[float], fault: Any
) -> None:
    hub.faults.add("POST", "/commit/", fault)
    before = repo.head.id
    done = run(publish={"how": "commit"})
    assert (done.code, done.status) == (0, "converted")
    assert repo.head.parent == before
    assert done.publish["commit"] == repo.head.id


def test_what_its_owner_took_back_stays_away_unless_forced(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    run(publish={"how": "commit"})
    hub.push("owner/m", {"model.safetensors": None})
    assert run(publish={"how": "commit"}).status == "up-to-date"
    assert "model.safetensors" not in repo.head.files
    assert run("--force", publish={"how": "commit"}).status == "converted"
    assert "model.safetensors" in repo.head.files


def test_a_trailer_of_ours_in_a_commit_without_the_weights_counts_for_nothing(
    repo: Any, run: Any, api: Any, tmp_path: Path
) -> None:
    digest = run("--output", str(tmp_path / "out"), "--no-publish").document["digest"]
    mark = Marker(digest=digest, weights="model.safetensors").as_trailer()
    note = [CommitOperationAdd("note.md", b"x")]
    api().create_commit("owner/m", note, commit_message="Note", commit_description=mark)
    assert mark in repo.head.message
    done = run(publish={"how": "commit"})
    assert done.status == "converted"
    assert "model.safetensors" in repo.head.files
    assert run(publish={"how": "commit"}).status == "up-to-date"
