"""Run a command beside a Hub on this machine, whatever network that has, and say what the Hub saw.

Also stands in for the service by which GitHub tells a job who it is. `python with_hub.py FOLDER COMMAND...`:
`{hub}` and `{github}` in the command become addresses; `FOLDER/repos/OWNER/NAME` holds the repositories;
`FOLDER/hub.json` will say what was asked and what became of the repositories.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.hub.loopback.server import RunningHub

WRITES, READS = (f"hf_loopback{number:024d}" for number in range(2))
IDENTITY = "a job of this repository"
TRUSTING = "owner/trusting"


class _GitHub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Give the identity; whether anybody asked is counted."""
        self.server.asked += 1  # type: ignore[attr-defined]
        data = json.dumps({"value": IDENTITY}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - its name there
        """Nothing on stderr."""


def main(folder: Path, command: list[str]) -> int:
    """Run the command; its exit code."""
    store = folder / "store"
    store.mkdir()
    github = ThreadingHTTPServer(("127.0.0.1", 0), _GitHub)
    github.asked = 0  # type: ignore[attr-defined]
    threading.Thread(target=github.serve_forever, daemon=True).start()
    with contextlib.closing(RunningHub(store)) as hub:
        _set_up(hub, folder / "repos")
        places = {"{hub}": hub.endpoint, "{github}": f"http://127.0.0.1:{github.server_port}"}
        code = subprocess.run([_filled(one, places) for one in command], check=False).returncode
        told = {**_told(hub), "identities": github.asked}  # type: ignore[attr-defined]
        (folder / "hub.json").write_text(json.dumps(told))
    return code


def _set_up(hub: RunningHub, repos: Path) -> None:
    assert [hub.token("owner"), hub.token("owner", "read")] == [WRITES, READS]
    hub.publishers[TRUSTING] = IDENTITY
    for repo in sorted(repos.glob("*/*")):
        files = {str(one.relative_to(repo)): one.read_bytes() for one in repo.rglob("*.*")}
        hub.repo(str(repo.relative_to(repos)), files)


def _filled(text: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def _told(hub: RunningHub) -> dict[str, Any]:
    return {
        "crashes": [str(one) for one in hub.crashes],
        "tokens": list(hub.tokens),
        "requests": [
            [one.method, one.path, one.token, one.status]
            for one in hub.log.records
            if one.origin == "hub"
        ],
        "proposed": {name: len(repo.discussions) for name, repo in hub.repos.items()},
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
