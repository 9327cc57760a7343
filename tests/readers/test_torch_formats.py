"""Files of torch 2.13, each with one property, against what must come out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfconvert.tensors.header import read_header
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.unreadable import Unreadable

FORMATS = Path(__file__).parent.parent / "fixtures" / "torch_formats"
FILES = sorted(path for path in FORMATS.glob("*/*.pt"))


def expected(kit: Any, folder: Path) -> dict[str, tuple[str, bytes]]:
    source = kit.source((folder / "expected.safetensors").read_bytes())
    header = read_header(source)
    return {
        entry.name: (str(entry.spec), kit.values(Leaf.packed(entry.spec, source, entry.start)))
        for entry in header.entries
    }


def readable(kit: Any, tensors: Any) -> dict[str, tuple[str, bytes]]:
    found = {}
    for name, lazy in tensors.items():
        if isinstance(lazy, Unreadable):
            assert lazy.problem.subject == name
        else:
            found[name] = (str(lazy.spec), kit.values(lazy, 100))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_must_come_out(kit: Any, path: Path) -> None:
    if path.parent.name == "nested_containers":
        return
    found = kit.open(path.read_bytes(), path.name)
    out = readable(kit, found.tensors)
    for name, value in expected(kit, path.parent).items():
        assert out.pop(name) == value
    odd = {"x"} if path.parent.name == "exotic_complex64" else set()
    odd |= {"('a', 1)"} if path.parent.name == "int_keys" else set()
    assert set(out) == odd
    assert found.dangerous == []


def test_nested_containers(kit: Any) -> None:
    found = kit.open((FORMATS / "nested_containers" / "m.pt").read_bytes())
    assert found.found.sets[0].name == "state_dict"
    assert list(found.tensors) == ["enc.w", "list.0", "list.1", "tuple.0"]
    assert list(found.found.others) == ["gen"]
    assert {item.verdict for item in found.file.imports} == {"inert"}


def test_all_of_them_are_tried() -> None:
    assert len(FILES) == 21
