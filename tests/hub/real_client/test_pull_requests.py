from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, DiscussionComment, HfApi
from huggingface_hub.errors import BadRequestError, HfHubHTTPError

from tests.hub.loopback.server import RunningHub

Api = Callable[..., HfApi]


def propose(client: HfApi, title: str = "Proposal", **files: bytes) -> Any:
    operations = [CommitOperationAdd(path, data) for path, data in (files or {"b": b"b"}).items()]
    return client.create_commit(
        "owner/m",
        operations,
        commit_message=title,
        commit_description="Why",
        create_pr=True,
    )


def test_a_commit_opens_a_pull_request(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a": "a"})
    visitor = api(hub.token("visitor"))
    info = propose(visitor)
    assert (info.pr_num, info.pr_url) == (1, f"{hub.endpoint}/owner/m/discussions/1")
    found = visitor.get_discussion_details("owner/m", 1)
    assert (found.title, found.status, found.author) == ("Proposal", "open", "visitor")
    assert (found.is_pull_request, found.git_reference) == (True, "refs/pr/1")
    assert (found.target_branch, found.conflicting_files) == ("refs/heads/main", [])
    assert [event.type for event in found.events] == ["comment", "commit"]
    [description] = [event for event in found.events if isinstance(event, DiscussionComment)]
    assert description.content == "Why"
    assert repo.commits[info.oid].parent == repo.head.id


def test_a_pull_request_begins_at_the_parent_that_was_asked_for(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a": "a"})
    parent = repo.head.id
    hub.push("owner/m", {"a": "newer"})
    info = api().create_commit(
        "owner/m",
        [CommitOperationAdd("b", b"b")],
        commit_message="Old base",
        create_pr=True,
        parent_commit=parent,
    )
    assert repo.commits[info.oid].parent == parent
    commits = api().list_repo_commits("owner/m", revision="refs/pr/1")
    assert [commit.commit_id for commit in commits[:2]] == [info.oid, parent]


def test_an_open_pull_request_takes_more_commits(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api()
    propose(client)
    client.create_commit(
        "owner/m", [CommitOperationAdd("c", b"c")], commit_message="More", revision="refs/pr/1"
    )
    assert set(hub.repos["owner/m"].resolve("refs/pr/1").files) == {"a", "b", "c"}
    events = client.get_discussion_details("owner/m", 1).events
    assert [event.type for event in events] == ["comment", "commit", "commit"]


def test_lists_by_page_kind_status_and_author(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    client, visitor = api(), api(hub.token("visitor"))
    for number in range(12):
        propose(visitor if number == 3 else client, f"Number {number}")
    client.create_discussion("owner/m", "A question", description="What?")
    client.change_discussion_status("owner/m", 2, "closed")
    nums = [found.num for found in client.get_repo_discussions("owner/m")]
    assert nums == [*range(13, 0, -1)]
    assert len(hub.log.find("GET", "/discussions$")) == 2
    kinds = client.get_repo_discussions("owner/m", discussion_type="pull_request")
    assert len(list(kinds)) == 12
    assert [d.num for d in client.get_repo_discussions("owner/m", author="visitor")] == [4]
    closed = client.get_repo_discussions("owner/m", discussion_status="closed")
    assert [(found.num, found.status) for found in closed] == [(2, "closed")]


def test_comments_are_added_and_edited(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api()
    propose(client)
    comment = client.comment_discussion("owner/m", 1, "First try")
    edited = client.edit_discussion_comment("owner/m", 1, comment.id, "Second try")
    assert (edited.content, edited.edited, edited.number_of_edits) == ("Second try", True, 1)
    events = client.get_discussion_details("owner/m", 1).events
    texts = [event.content for event in events if isinstance(event, DiscussionComment)]
    assert texts == ["Why", "Second try"]
    stranger = api(hub.token("visitor"))
    with pytest.raises(HfHubHTTPError, match="your own comments"):
        stranger.edit_discussion_comment("owner/m", 1, comment.id, "Mine")


def test_titles_and_statuses_change(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api()
    propose(client)
    renamed = client.rename_discussion("owner/m", 1, "Another title")
    assert (renamed.old_title, renamed.new_title) == ("Proposal", "Another title")
    closed = client.change_discussion_status("owner/m", 1, "closed", comment="Superseded")
    assert closed.new_status == "closed"
    found = client.get_discussion_details("owner/m", 1)
    kinds = [event.type for event in found.events]
    assert kinds == ["comment", "commit", "title-change", "comment", "status-change"]
    assert client.change_discussion_status("owner/m", 1, "open").new_status == "open"
    with pytest.raises(HfHubHTTPError):
        api(hub.token("visitor")).change_discussion_status("owner/m", 1, "closed")


def test_merging_brings_the_changes_into_main(hub: RunningHub, api: Api) -> None:
    repo = hub.repo("owner/m", {"a": "a"})
    client = api()
    propose(client)
    hub.push("owner/m", {"c": "meanwhile"})
    client.merge_pull_request("owner/m", 1)
    assert set(repo.head.files) == {"a", "b", "c"}
    found = client.get_discussion_details("owner/m", 1)
    assert (found.status, found.merge_commit_oid) == ("merged", repo.head.id)
    assert repo.head.title == "Proposal (#1)"
    with pytest.raises(BadRequestError):
        client.merge_pull_request("owner/m", 1)


def test_conflicts_are_named_and_not_merged(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api()
    propose(client, a=b"theirs")
    hub.push("owner/m", {"a": "ours"})
    assert client.get_discussion_details("owner/m", 1).conflicting_files == ["a"]
    with pytest.raises(HfHubHTTPError) as caught:
        client.merge_pull_request("owner/m", 1)
    assert caught.value.response.status_code == 409


def test_drafts_cannot_be_merged(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"})
    draft = api().create_pull_request("owner/m", "A draft", description="Soon")
    assert draft.status == "draft"
    with pytest.raises(BadRequestError, match="draft"):
        api().merge_pull_request("owner/m", 1)


def test_pull_requests_can_be_turned_off(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m", {"a": "a"}, pull_requests=False)
    with pytest.raises(HfHubHTTPError, match="Discussions are disabled") as caught:
        propose(api())
    assert caught.value.response.status_code == 403
    with pytest.raises(HfHubHTTPError, match="Discussions are disabled"):
        list(api().get_repo_discussions("owner/m"))


@pytest.mark.parametrize(
    ("role", "everywhere", "fine"),
    [
        ("read", (), False),
        ("write", (), True),
        ("fineGrained", (), False),
        ("fineGrained", ("discussion.write",), True),
    ],
)
def test_pull_requests_take_a_token_that_may_open_them(
    hub: RunningHub,
    api: Api,
    role: Any,
    everywhere: tuple[str, ...],
    fine: bool,
) -> None:
    hub.repo("owner/m", {"a": "a"})
    client = api(hub.token("visitor", role, everywhere=everywhere))
    if fine:
        assert propose(client).pr_num == 1
        return
    with pytest.raises(HfHubHTTPError, match="Authorization error") as caught:
        propose(client)
    assert caught.value.response.status_code == 403


def test_a_discussion_that_is_not_there(hub: RunningHub, api: Api) -> None:
    hub.repo("owner/m")
    with pytest.raises(HfHubHTTPError, match="No discussion found"):
        api().get_discussion_details("owner/m", 9)
