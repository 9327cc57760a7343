"""Before the first byte: token, scopes, rights, gates, room. Each obstacle has its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import HfApi

from hfconvert.making import room
from hfconvert.publishing import permitted
from tests.hub.loopback.faults import Say
from tests.hub.loopback.server import RunningHub


def refuse(run: Any, hub: RunningHub, code: int, *options: str, **parts: Any) -> str:
    """What a run says that ends before anything was made or changed."""
    commits = {name: dict(repo.commits) for name, repo in hub.repos.items()}
    done = run(*options, **parts)
    assert done.code == code, done.said
    assert done.document["publish"] is None
    assert {name: dict(repo.commits) for name, repo in hub.repos.items()} == commits
    assert all(not repo.discussions for repo in hub.repos.values())
    assert hub.log.find(path=r"write-token|/objects/batch|[^e]upload/|/commit/|repos/create") == []
    for problem in done.document["findings"]:
        assert problem["message"]
        assert problem["hint"] or problem["level"] != "error"
    return str(done.findings())


def test_without_a_token(hub: RunningHub, repo: Any, run: Any) -> None:
    said = refuse(run, hub, 4, token=None)
    assert "publishing takes a token" in said
    assert "--no-publish" in said


def test_a_token_that_the_hub_does_not_know(hub: RunningHub, repo: Any, run: Any) -> None:
    said = refuse(run, hub, 4, token="hf_unknownunknownunknown")
    assert "does not accept the token" in said
    assert "hf_unknown" not in said


@pytest.mark.parametrize(
    ("role", "everywhere", "how", "word"),
    [
        ("read", (), "pull_request", "it is a read token"),
        ("read", (), "commit", "it is a read token"),
        ("fineGrained", (), "pull_request", "without discussion.write for owner/m"),
        ("fineGrained", ("discussion.write",), "commit", "without repo.write for owner/m"),
    ],
)
def test_a_token_without_the_scope(
    hub: RunningHub, repo: Any, run: Any, role: Any, everywhere: Any, how: str, word: str
) -> None:
    token = hub.token("owner", role, everywhere=everywhere)
    assert word in refuse(run, hub, 4, token=token, publish={"how": how})


@pytest.mark.parametrize(
    ("scoped", "everywhere"), [({}, ("discussion.write",)), ({"owner/m": ("repo.write",)}, ())]
)
def test_a_token_with_the_scope(
    hub: RunningHub, repo: Any, run: Any, scoped: Any, everywhere: Any
) -> None:
    token = hub.token("owner", "fineGrained", scoped=scoped, everywhere=everywhere)
    assert run(token=token).code == 0


def test_a_visitor_may_propose_but_not_commit(hub: RunningHub, repo: Any, run: Any) -> None:
    token = hub.token("visitor")
    said = refuse(run, hub, 4, token=token, publish={"how": "commit"})
    assert "no right to commit to it" in said
    assert run(token=token).publish["pr_number"] == 1
    assert repo.discussions[0].author == "visitor"


def test_pull_requests_that_are_turned_off(hub: RunningHub, repo: Any, run: Any) -> None:
    repo.pull_requests = False
    said = refuse(run, hub, 4)
    assert "turned pull requests off" in said
    assert "publish.repo" in said


@pytest.mark.parametrize("signed_in", ["visitor", "owner"])
def test_a_gated_repository(hub: RunningHub, repo: Any, run: Any, signed_in: str) -> None:
    repo.gated = "manual"
    if signed_in == "owner":
        assert run().code == 0
        return
    assert "gated, and this account has no access" in refuse(
        run, hub, 4, token=hub.token("visitor")
    )


def test_a_gated_target(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.repo("other/target", {"a.txt": "a"}, gated="manual")
    said = refuse(run, hub, 4, publish={"repo": "other/target"})
    assert "other/target" in said
    assert "gated" in said


def test_a_repository_that_is_not_there_is_not_made_for_its_own_pull_request(
    hub: RunningHub, run: Any
) -> None:
    assert "not found" in refuse(run, hub, 4)
    assert hub.repos == {}


@pytest.mark.parametrize(
    ("user", "role", "scoped", "word"),
    [
        ("visitor", "write", {}, "visitor is no member of lab"),
        ("member", "write", {}, "the role of member in lab is read"),
        ("owner", "read", {}, "it is a read token"),
        ("owner", "fineGrained", {}, "without repo.write for lab"),
    ],
)
def test_a_repository_that_this_account_may_not_make(
    hub: RunningHub, repo: Any, run: Any, user: str, role: Any, scoped: Any, word: str
) -> None:
    hub.user("member", lab="read")
    hub.user("owner", lab="write")
    token = hub.token(user, role, scoped=scoped)
    said = refuse(run, hub, 4, token=token, publish={"repo": "lab/new"})
    assert word in said
    assert "may not make it" in said
    assert "lab/new" not in hub.repos


def test_private_storage_that_will_not_do(
    hub: RunningHub, files: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repo("owner/m", files, private=True)
    hub.repo("owner/big", private=True, facts={"usedStorage": 99_999_999_000})
    hub.repo("owner/open", facts={"usedStorage": 99_999_999_000})
    said = refuse(run, hub, 4)
    assert "of private storage" in said
    assert "100 GB" in said
    assert run("--force").code == 0


def test_public_storage_is_not_counted(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.repo("owner/big", private=True, facts={"usedStorage": 10**12})
    assert run().code == 0


def test_too_little_disk(
    hub: RunningHub, repo: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permitted, "free_bytes", lambda _: 100)
    said = refuse(run, hub, 5)
    assert "of disk, and 100 B are free" in said
    assert "HF_HOME" in said


def test_too_little_memory(
    hub: RunningHub, repo: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory_bytes", lambda: 1000)
    assert "of memory, and 1.00 kB are free" in refuse(run, hub, 5)


def test_other_values_over_its_own_weights_have_to_be_asked_for(
    hub: RunningHub, repo: Any, run: Any
) -> None:
    said = refuse(run, hub, 2, dtype="bfloat16")
    assert "replace_weights: true" in said
    assert "recipe.yaml:1:" in said
    done = run(dtype="bfloat16", publish={"replace_weights": True})
    assert done.code == 0
    assert repo.discussions[0].title == "Adding `safetensors` weights: cast from F32 to BF16"


def test_other_names_have_another_title(hub: RunningHub, repo: Any, run: Any) -> None:
    steps = [{"rename": {"transformer.*": "*"}}]
    done = run(key_map=steps, validate={"architecture": "off"})
    assert done.code == 0, done.findings()
    assert repo.discussions[0].title == "Adding `safetensors` weights: other names"


def test_a_whoami_without_scopes_leaves_it_to_the_hub(hub: RunningHub, repo: Any, run: Any) -> None:
    hub.faults.add("GET", "whoami", Say(200, body={"name": "owner", "type": "user"}))
    assert run().code == 0


def test_the_token_is_in_no_output(
    hub: RunningHub, repo: Any, run: Any, api: Callable[..., HfApi], tmp_path: Any
) -> None:
    """Even where the Hub repeats it in its refusals."""
    token = hub.token()
    hub.faults.add("POST", "/commit/", Say(403, f"the token {token} may not; Bearer {token}"))
    done = run("-v", "--report", str(tmp_path / "report.json"), token=token)
    assert done.code == 4
    texts = [done.said, str(done.document), (tmp_path / "report.json").read_text()]
    assert not any(token in text for text in texts)
    assert run("-v", token=token).code == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(token.encode() in path.read_bytes() for path in written)
    body = repo.discussions[0].comments[0].data["latest"]["raw"]
    assert token not in body
