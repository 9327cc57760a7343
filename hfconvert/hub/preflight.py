"""Before the first byte: whether the result may be published where the recipe says.

Nothing is changed here, no repository is made. Each obstacle has its own message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from huggingface_hub import CommitOperationAdd

from hfconvert.errors import Problem, UserError, raise_any
from hfconvert.hub.about import About, hub_problem
from hfconvert.hub.account import Account, who
from hfconvert.hub.client import Client
from hfconvert.hub.publisher import publishes_to
from hfconvert.hub.refusals import SIGN_IN
from hfconvert.hub.source import Snapshot, pin
from hfconvert.hub.target import MAIN, How, Target
from hfconvert.report.sizes import human

# What an account without a plan may keep in private (https://huggingface.co/docs/hub/storage-limits).
FREE_PRIVATE_BYTES = 100 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be published: where, how, how many bytes of it.

    `origin` is the snapshot that is converted, None for local files; `folder` is the folder of it.
    """

    repo: str
    how: How
    private: bool
    nbytes: int
    origin: Snapshot | None = None
    folder: str = ""
    force: bool = False


def prepare(client: Client, wanted: Wanted) -> Target:
    """Look at repository, account and rights. UserError (exit 4) where something is in the way."""
    about = client.about(wanted.repo, "propose" if wanted.how == "pull_request" else "write")
    if not client.signed_in:
        raise UserError(_no_token(about))
    account = _account(client, wanted)
    head = _head(client, wanted)
    repo = str(head.facts.id) if head else wanted.repo
    ours = wanted.origin is not None and wanted.origin.facts.id == repo
    target = Target(
        client=client,
        repo=repo,
        how=wanted.how,
        account=account,
        head=head,
        private=bool(head.facts.private) if head else wanted.private,
        origin=wanted.origin if ours else None,
        folder=wanted.folder if ours else "",
    )
    raise_any(_no_right(target))
    if head is not None:
        _ask_whether(target)
    if not wanted.force:
        raise_any(_no_room(target, wanted.nbytes))
    return target


def _account(client: Client, wanted: Wanted) -> Account:
    """Whose token it is. That of a publisher may have no account that it tells of: a commit needs none."""
    try:
        return who(client)
    except UserError:
        if not publishes_to() or wanted.how == "pull_request":
            raise
        return Account(name="")


def _head(client: Client, wanted: Wanted) -> Snapshot | None:
    """The main branch of the repository; None where there is none yet."""
    there = client.ask(client.about(wanted.repo), lambda: client.api.repo_exists(wanted.repo))
    return pin(client, wanted.repo, MAIN) if there else None


def _no_right(target: Target) -> Iterator[Problem]:
    """What the token is surely not made for, by what the Hub tells of it."""
    account, repo, about = target.account, target.repo, target.about
    if target.head is None:
        lacks = account.lacks_to_create(repo)
        if lacks:
            yield _may_not_create(about, lacks)
        return
    proposes = target.how == "pull_request"
    lacks = account.lacks_to_propose(repo) if proposes else account.lacks_to_write(repo)
    if lacks:
        yield hub_problem(
            about,
            "this token may not " + ("open pull requests" if proposes else "commit to it"),
            why=lacks,
            do=_new_token(about, "discussion.write" if proposes else "repo.write"),
        )


def _ask_whether(target: Target) -> None:
    """Ask the Hub itself, in the way in which the files will be sent: nothing comes of it."""
    client, repo = target.client, target.repo
    client.ask(client.about(repo), lambda: client.api.auth_check(repo))  # gated
    if target.how == "commit":
        client.ask(target.about, lambda: client.api.auth_check(repo, write=True))
        return
    # A list of discussions is refused where its owner turned them off; an upload that is announced, where
    # this account may not propose.
    client.ask(target.about, lambda: next(client.api.get_repo_discussions(repo), None))
    announced = CommitOperationAdd("README.md", b"#")
    client.ask(
        target.about, lambda: client.api.preupload_lfs_files(repo, [announced], create_pr=True)
    )


def _no_room(target: Target, nbytes: int) -> Iterator[Problem]:
    """A free account has so much private storage; what plans and organisations have is not told."""
    account, namespace = target.account, target.repo.partition("/")[0]
    if not target.private or account.is_pro or namespace != account.name:
        return
    client = target.client
    repos = client.ask(
        client.about(target.repo),
        lambda: list(client.api.list_models(author=namespace, expand=["private", "usedStorage"])),
    )
    used = sum(repo.used_storage or 0 for repo in repos if repo.private)
    if used + nbytes > FREE_PRIVATE_BYTES:
        yield hub_problem(
            target.about,
            f"the result needs {human(nbytes)} of private storage, and {human(used)} are in use",
            why=f"a free account has {human(FREE_PRIVATE_BYTES)}",
            do="free some, publish with `private: false`, or go on all the same with --force",
        )


def _no_token(about: About) -> Problem:
    return hub_problem(
        about,
        "publishing takes a token",
        why="none was found: HF_TOKEN is not set, and nobody is logged in",
        do=f"make one at {about.endpoint}/settings/tokens, then {SIGN_IN}; "
        "--no-publish stops after the proof",
    )


def _may_not_create(about: About, lacks: str) -> Problem:
    namespace = about.repo.partition("/")[0]
    return hub_problem(
        about,
        "there is no such repository, and this token may not make it",
        why=f"{lacks}; or it is private, and this token may not see it",
        do=f"correct publish.repo, make the repository, or {_new_token(about, 'repo.write', namespace)}",
    )


def _new_token(about: About, permission: str, where: str = "") -> str:
    return (
        f"make a token at {about.endpoint}/settings/tokens: a write token, or a fine-grained one with "
        f"{permission} for {where or about.repo}; then {SIGN_IN}"
    )
