"""Parts of a report as Markdown: nothing that a source is called breaks out of its place."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.checks.result import Check
from hfconvert.pickles.values import Import
from hfconvert.pickles.verdicts import judge
from hfconvert.readers.contents import PickleFacts
from hfconvert.report.markdown import checks_table, code, files_table, pickle_lines, prose
from hfconvert.report.model import Output


@given(st.text(max_size=60))
def test_a_name_stays_code(text: str) -> None:
    shown = code(text)
    fence = len(shown) - len(shown.lstrip("`"))
    assert fence >= 1
    inside = shown[fence:-fence]
    assert max((len(run) for run in re.findall("`+", inside)), default=0) < fence
    assert shown.endswith("`" * fence)
    assert len(shown.splitlines()) <= 1
    assert "|" not in shown.replace("\\|", "")


def test_prose_names_no_path_of_this_machine() -> None:
    text = "read /home/me/secret/model.bin and https://hub.example/a/b; <b>x</b>\nnext"
    assert prose(text) == "read model.bin and https://hub.example/a/b; &lt;b>x&lt;/b> next"


def test_few_files_are_shown_and_many_are_folded() -> None:
    files = [Output(f"model-{i}.safetensors", 10**i, f"{i:064x}") for i in range(13)]
    assert files_table(files[:2]) == (
        "| file | size | sha256 |\n|---|--:|---|\n"
        f"| `model-0.safetensors` | 1 B | `{0:064x}` |\n"
        f"| `model-1.safetensors` | 10 B | `{1:064x}` |"
    )
    folded = files_table(files)
    assert folded.startswith("<details><summary>13 files, 1.11 TB in all</summary>")
    assert all(one.sha256 in folded for one in files)


def test_checks_are_rows() -> None:
    checks = [
        Check("names", "pass", {"tensors": 1234, "by_kind": {"a": 1}}),
        Check("logits", "skipped", detail="no | class"),
    ]
    assert checks_table(checks).splitlines()[2:] == [
        "| `names` | passed | tensors 1,234 |",
        "| `logits` | not done | no \\| class |",
    ]


def test_imports_are_told_by_how_they_are_judged() -> None:
    imports = tuple(
        Import(module, name, judge(module, name), 1)
        for module, name in [("os", "system"), ("collections", "OrderedDict")]
    )
    [line] = pickle_lines([("a.bin", PickleFacts(imports))])
    assert line == "- `a.bin`: dangerous: `os.system`; inert: `collections.OrderedDict`"
    assert list(pickle_lines([("b.bin", PickleFacts(()))])) == ["- `b.bin`: imports nothing"]
