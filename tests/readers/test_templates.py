from __future__ import annotations

import json
from pathlib import Path

import pytest

from hfconvert.readers.templates import template_findings

GOOD = (
    "{% for message in messages %}{{ message['role'] }}: {{ message.content | trim }}"
    "{% endfor %}{{ raise_exception('no') if loop is defined and loop.first }}{{ '__end__' }}"
)
BAD = {
    "by attributes": ("{{ [].__class__.__base__.__subclasses__() }}", "__class__"),
    "by a filter": ("{{ messages | attr('__globals__') }}", "__globals__"),
    "by a subscript": ("{{ messages['__init__'] }}", "__init__"),
    "by a helper of Jinja": ("{{ lipsum.func }}", "lipsum."),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.jinja"])
def test_a_template_that_reaches_out_is_named(tmp_path: Path, name: str, case: str) -> None:
    template, asked = BAD[case]
    path = tmp_path / name
    path.write_text(json.dumps({"chat_template": template}) if name.endswith("json") else template)
    (found,) = template_findings([(name, path)])
    assert (found.level, found.subject) == ("warning", name)
    assert f"asks for `{asked}`" in found.message


def test_templates_in_their_folder_are_read_too(tmp_path: Path) -> None:
    name = "additional_chat_templates/tools.jinja"
    path = tmp_path / "tools.jinja"
    path.write_text(BAD["by attributes"][0])
    assert [one.subject for one in template_findings([(name, path)])] == [name]


def test_ordinary_templates_and_other_files_are_not(tmp_path: Path) -> None:
    for name, text in {
        "tokenizer_config.json": json.dumps({"chat_template": GOOD}),
        "chat_template.jinja": GOOD,
        "modeling.py": "x.__class__",
    }.items():
        path = tmp_path / name
        path.write_text(text)
        assert list(template_findings([(name, path)])) == []


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "b.jinja").write_bytes(b"\xff\xfe\x00")
    files = [
        ("chat_template.jinja", tmp_path / "nowhere"),
        ("chat_template.jinja", tmp_path / "b.jinja"),
    ]
    assert list(template_findings(files)) == []
