"""A second official client, `@huggingface/hub` from npm, reads and writes the loopback Hub."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tests.hub.loopback.server import RunningHub

SCRIPT = Path(__file__).parent / "second_client.mjs"
PACKAGE = "@huggingface/hub@2.17.5"


@pytest.mark.slow
def test_the_client_in_javascript_agrees(
    hub: RunningHub, tmp_path: Path, process_env: dict[str, str]
) -> None:
    weights = save({"w": np.arange(1000, dtype=np.float32)})
    text = "[1, 2, 3, 4]"
    repo = hub.repo("owner/m", {"model.safetensors": weights, "sub/a.json": text}, private=True)
    shutil.copy(SCRIPT, tmp_path)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", PACKAGE]
    subprocess.run(npm, cwd=tmp_path, env=process_env, check=True)
    head = repo.head
    run = subprocess.run(
        ["node", SCRIPT.name, hub.endpoint, hub.token()],
        cwd=tmp_path,
        env=process_env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    sha256 = head.files["model.safetensors"].blob.sha256
    assert json.loads(run.stdout) == {
        "user": "owner",
        "model": head.id,
        "files": {
            "model.safetensors": {
                "size": len(weights),
                "sha256": sha256,
                "part": weights[5:10].hex(),
            },
            "sub/a.json": {"size": 12, "sha256": None, "part": text[5:10].encode().hex()},
        },
        "models": ["owner/m"],
        "commits": ["Upload", "initial commit"],
        "pull_request": f"{hub.endpoint}/owner/m/discussions/1",
        "tensors": ["w"],
    }
    assert set(repo.resolve("refs/pr/1").files) == {"a.txt", "b.bin", *head.files}
    assert hub.log.leaks == []
