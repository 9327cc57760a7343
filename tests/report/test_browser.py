"""The page in a real browser: as wide as a desk and as a phone, light and dark. Needs Chromium or Chrome."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from hfconvert.report.page import TensorRow, document_page
from tests.report.chromium import browse
from tests.report.picture import HEIGHT, PICTURE, ROOT, WIDTH, make_picture

pytestmark = pytest.mark.slow

PROBE = """
<script>
window.addEventListener("load", function () {
  var root = document.documentElement, box = document.getElementById("search");
  var rows = Array.prototype.slice.call(document.getElementById("tensors").rows);
  function shown() { return rows.filter(function (row) { return !row.hidden; }).length; }
  var found = {width: root.clientWidth, needs: root.scrollWidth, all: shown()};
  found.ink = getComputedStyle(document.body).color;
  found.page = getComputedStyle(document.body).backgroundColor;
  found.text = Math.min.apply(null, Array.prototype.map.call(document.querySelectorAll("svg text"),
    function (one) { return one.getBoundingClientRect().height; }));
  box.value = "layers.1."; box.dispatchEvent(new Event("input"));
  found.searched = shown(); found.said = document.getElementById("count").textContent;
  box.value = ""; box.dispatchEvent(new Event("input")); found.again = shown();
  parent.document.title = JSON.stringify(found);
});
</script>
"""


def look(page: str, folder: Path, width: int, *, dark: bool) -> dict[str, Any]:
    """Open a page in a frame of that width, and say what was found there."""
    (folder / "page.html").write_text(page.replace("</body>", f"{PROBE}</body>"))
    frame = f'<iframe src="page.html" style="border:0;width:{width}px;height:800px"></iframe>'
    (folder / "frame.html").write_text(f"<!doctype html><title>-</title>{frame}")
    options = ["--allow-file-access-from-files", "--window-size=1200,900", "--dump-dom"]
    said = browse(folder / "frame.html", folder / "profile", options, dark=dark)
    (title,) = re.findall(r"<title>(.*?)</title>", said)
    assert title != "-", said
    found: dict[str, Any] = json.loads(title.replace("&amp;", "&"))
    return found


def page() -> str:
    amount = {"tensors": 8, "parameters": 8, "bytes": 32}
    side = {"tensors": 8, "parameters": 8, "bytes": 32, "by_dtype": {"F32": amount, "I64": amount}}
    series = {
        "cosine_by_position": [0.9999] * 30,
        "difference_by_layer": [0.1, 0.2],
        "by_input": [],
    }
    checks = [
        {
            "name": name,
            "status": status,
            "measured": {"values": 123456789, **({"series": series} if name == "logits" else {})},
            "limit": {"cosine_min": 0.999} if name == "logits" else {},
            "detail": "a detail that goes on_and_on_without_a_single_place_to_break_" * 3,
        }
        for name, status in (("names", "pass"), ("tensors", "fail"), ("logits", "skipped"))
    ]
    document: dict[str, Any] = {
        "status": "failed",
        "source": {"repo": None, "path": f"/{'long' * 30}/model", "format": "torch", "files": []},
        "candidate": None,
        "output": f"/{'output' * 20}",
        "digest": "0" * 64,
        "outputs": [{"file": "model.safetensors", "size": 1, "sha256": "1" * 64}],
        "checks": checks,
        "findings": [
            {"level": level, "check": "c", "subject": "s" * 90, "message": "m", "hint": "h"}
            for level in ("error", "warning", "info")
        ],
        "totals": {"source": side, "result": side, "causes": {}},
        "dropped": [{"name": "d" * 120, "rule": "r"}],
        "ties": [{"kept": "k", "dropped": "t"}],
        "pickle": [],
        "publish": None,
        "opening": None,
        "versions": {"python": "3"},
        "seconds": 1.0,
        "peak_memory_bytes": 1,
    }
    rows = [
        TensorRow(
            f"model.layers.{layer}.{'mlp.' * 6}{part}", "BF16", "4096 x 4096", "33 MB", "", ""
        )
        for layer in range(4)
        for part in ("up", "down")
    ]
    return document_page(document, rows)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200], ids=["phone", "desk"])
def test_the_page_fits_reads_and_searches(tmp_path: Path, width: int, *, dark: bool) -> None:
    found = look(page(), tmp_path, width, dark=dark)
    assert found["width"] >= width - 20
    assert found["needs"] <= found["width"], "the page is wider than the window"
    assert (found["all"], found["searched"], found["again"]) == (8, 2, 8)
    assert found["said"] == "2 of 8"
    assert found["text"] >= 9, "text of a plot is too small to read"
    ink, paper = (brightness(found[name]) for name in ("ink", "page"))
    assert (ink > paper) == dark
    assert abs(ink - paper) > 150


def brightness(colour: str) -> float:
    parts = [int(one) for one in re.findall(r"\d+", colour)[:3]]
    return sum(parts) / 3


def test_the_picture_of_the_readme_can_be_made_and_is_light(tmp_path: Path) -> None:
    made = tmp_path / "page.png"
    make_picture(made)
    assert f"({PICTURE.relative_to(ROOT)})" in (ROOT / "README.md").read_text(encoding="utf-8")
    for picture in (made, PICTURE):
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert struct.unpack(">II", content[16:24]) == (WIDTH, HEIGHT)
        assert 20_000 < len(content) < 200_000
