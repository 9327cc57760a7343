"""An adapter whose configuration was lost on the Hub: it is that of the newest earlier commit with one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from hfconvert.findings import Finding, warning
from hfconvert.hub.checkout import Checkout
from hfconvert.hub.source import Snapshot
from hfconvert.workplace import place_for

CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model."
MOST = 200  # commits that are looked at


def with_earlier_config(snapshot: Snapshot, checkout: Checkout) -> Checkout:
    """The checkout of an adapter with the configuration of an earlier commit, where its own was lost.

    As it was where it is no adapter by PEFT, has its configuration, or never had one. UserError (exit 4)
    where the Hub does not answer.
    """
    names = snapshot.files
    if CONFIG in names or not any(name.startswith(_WEIGHTS) for name in names):
        return checkout
    commit = _newest_with_config(snapshot)
    if commit is None:
        return checkout
    root = _joined(snapshot, checkout.root, _config_of(snapshot, commit))
    findings = (*checkout.origin.findings, _said(snapshot, commit))
    return Checkout(root, replace(checkout.origin, findings=findings))


def _newest_with_config(snapshot: Snapshot) -> str | None:
    client, about = snapshot.client, snapshot.about.at(CONFIG)
    commits = client.ask(
        about, lambda: client.api.list_repo_commits(snapshot.repo, revision=snapshot.commit)
    )
    earlier = (str(commit.commit_id) for commit in commits[1 : MOST + 1])
    return next((one for one in earlier if _has_config(snapshot, one)), None)


def _has_config(snapshot: Snapshot, commit: str) -> bool:
    api = snapshot.client.api
    about = snapshot.client.about(snapshot.repo, revision=commit, file=CONFIG)
    found = snapshot.client.ask(
        about, lambda: api.get_paths_info(snapshot.repo, CONFIG, revision=commit)
    )
    return bool(found)


def _config_of(snapshot: Snapshot, commit: str) -> Path:
    def call() -> str:
        return snapshot.client.api.hf_hub_download(snapshot.repo, CONFIG, revision=commit)

    return Path(snapshot.client.ask(snapshot.about.at(CONFIG), call))


def _joined(snapshot: Snapshot, root: Path, config: Path) -> Path:
    """A folder of links to the files of this commit that are here, and to the configuration."""
    place = place_for(snapshot.repo, f"adapter-{snapshot.commit}")
    shutil.rmtree(place, ignore_errors=True)
    here = {path: root / path for path in snapshot.files if (root / path).is_file()}
    for path, file in {**here, CONFIG: config}.items():
        link = place / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file.resolve())
    return place


def _said(snapshot: Snapshot, commit: str) -> Finding:
    message = f"{CONFIG} is not there any more; that of commit {commit[:12]} is taken, the newest with one"
    hint = "name another revision, or put the file back, if the adapter was trained again since"
    return warning("lora", snapshot.repo, message, hint)
