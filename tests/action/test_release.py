"""`release.yml` and `.ci/release`: what a tag has to agree with, what is published, in which order."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfconvert import __version__
from tests.action.harness import ROOT, TOOLS, Asked, run_act, whole_action

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
STUBS = ROOT / "tests" / "action" / "stubs"


def test_only_one_job_can_prove_who_it_is_and_only_one_can_write() -> None:
    document: dict[str, Any] = yaml.safe_load(WORKFLOW)
    rights = {name: job["permissions"] for name, job in document["jobs"].items()}

    assert document["permissions"] == {}
    assert rights == {
        "build": {"contents": "read"},
        "pypi": {"attestations": "write", "id-token": "write"},
        "github": {"contents": "write"},
    }
    assert document["jobs"]["pypi"]["environment"]["name"] == "pypi"
    assert [document["jobs"][job].get("needs") for job in rights] == [None, "build", "pypi"]


def test_a_tag_is_built_published_and_released_and_the_major_tag_moves(tmp_path: Path) -> None:
    used = re.findall(r"uses: ((?!actions/checkout)\S+@\S+)", WORKFLOW)
    made = '#!/bin/sh\nmkdir -p $2/dist && echo "made $1" && touch $2/notes.md\n'
    ran = run_act(
        Asked(
            workflow=WORKFLOW.replace(".ci/release", "sh .ci/release"),
            files={".ci/release": made},
            payload={"ref": "refs/tags/v1.2.3"},
            env={"PATH": f"{_gh(tmp_path / 'gh')}:{TOOLS}:/usr/bin:/bin"},
            stubs={name: STUBS / _stub(name) for name in used},
        ),
        tmp_path,
    )

    assert ran.code == 0, ran.text
    assert "made v1.2.3" in ran.log("build", "2")
    assert "attested release/dist/hfconvert-1.2.3.tar.gz" in ran.log("pypi", "1")
    assert "given hfconvert-1.2.3-py3-none-any.whl" in ran.log("pypi", "2")
    lines = [line for line in ran.log("github").splitlines() if line.startswith("gh ")]
    asked = [re.sub(r"[0-9a-f]{40}|repos/\S+/git(?=/)", "X", line) for line in lines]
    assert asked == [
        "gh release view v1.2.3",
        (
            "gh release create v1.2.3 release/dist/hfconvert-1.2.3-py3-none-any.whl "
            "release/dist/hfconvert-1.2.3.tar.gz --verify-tag --title hfconvert v1.2.3 "
            "--notes-file release/notes.md"
        ),
        "gh api X/ref/tags/v1 --silent",
        "gh api X/refs --method POST --raw-field ref=refs/tags/v1 --raw-field sha=X",
    ]


def _release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [".ci/release", *arguments], cwd=root, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This repository with a change log that has a part about its version."""
    root = whole_action(tmp_path / "checkout")
    changes = root / "CHANGELOG.md"
    text = changes.read_text()
    changes.write_text(text.replace("## Unreleased", f"## [{__version__}] - 2026-12-01"))
    return root


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    done = _release(checkout, "v9.9.9", "release")

    assert done.returncode == 1
    assert done.stderr.endswith(f"v9.9.9, and hfconvert/__init__.py says {__version__}\n")
    assert not (checkout / "release").exists()


def test_a_version_that_the_change_log_does_not_know_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- More.\n")
    done = _release(checkout, f"v{__version__}", "release")

    assert done.returncode == 1
    assert f"CHANGELOG.md has no part of its own for {__version__}" in done.stderr
    assert not (checkout / "release").exists()


@pytest.mark.slow
def test_wheel_and_sdist_are_made_and_each_converts_the_quickstart(checkout: Path) -> None:
    done = _release(checkout, f"v{__version__}", "release")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tensors  ok") == 2
    made = sorted(path.name for path in (checkout / "release" / "dist").iterdir())
    assert made == [f"hfconvert-{__version__}-py3-none-any.whl", f"hfconvert-{__version__}.tar.gz"]
    assert (checkout / "release" / "notes.md").read_text().lstrip().startswith("### Added")


def _gh(folder: Path) -> Path:
    """A folder with a `gh` that shows what it is asked for, and has neither the release nor the tag."""
    folder.mkdir()
    program = folder / "gh"
    lacks = '[ "$1 $2" = "release view" ] || [ "$3" = --silent ]'
    program.write_text(f'#!/bin/sh\necho "gh $*" >&2\nif {lacks}; then exit 1; fi\n')
    program.chmod(0o755)
    return folder


def _stub(name: str) -> str:
    action = name.partition("/")[2].partition("@")[0]
    return action if action.endswith(("-artifact", "-python")) else "nothing"
