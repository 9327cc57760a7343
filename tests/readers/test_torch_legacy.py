"""Legacy streams and plain pickles."""

from __future__ import annotations

import io
import pickle
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import UserError

MAGIC = 0x1950A86A20F9469CFC6C


def legacy(
    tree: bytes, keys: list[Any], storages: bytes, *, little: bool = True, protocol: int = 1001
) -> bytes:
    """A legacy stream put together by hand around a pickle."""
    facts = {"protocol_version": 1001, "little_endian": little, "type_sizes": {"long": 4}}
    front = b"".join(pickle.dumps(part, 2) for part in (MAGIC, protocol, facts))
    return front + tree + pickle.dumps(keys, 2) + storages


def tensor(key: bytes = b"1", count: int = 4, view: bytes = b"N", size: int = 4) -> bytes:
    """The pickle of one float tensor whose storage is `key`, by protocol 2."""
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
        + key
        + b"X\x03\x00\x00\x00cpu"
    )
    storage += b"K" + bytes([count]) + view + b"tQ"
    sizes = b"K" + bytes([size]) + b"\x85K\x01\x85"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x00" + sizes + b"tR."


DATA = struct.pack("<q4f", 4, 1.5, -2.0, 3.0, 4.0)


def test_a_stream_by_hand(kit: Any) -> None:
    found = kit.open(legacy(tensor(), ["1"], DATA))
    assert found.file.container == "legacy"
    assert kit.values(found.tensors["tensor"]) == DATA[8:]


def test_a_big_endian_stream(kit: Any) -> None:
    data = legacy(
        tensor(), ["1"], struct.pack("<q", 4) + struct.pack(">4f", 1.5, -2, 3, 4), little=False
    )
    assert kit.values(kit.open(data).tensors["tensor"]) == DATA[8:]


def test_storages_that_are_parts_of_others(kit: Any) -> None:
    """torch before 0.4 names a part as (key, offset, size)."""
    view = b"(X\x01\x00\x00\x00vK\x01K\x02t"
    found = kit.open(legacy(tensor(view=view, size=2), ["1"], DATA))
    assert kit.values(found.tensors["tensor"]) == struct.pack("<2f", -2.0, 3.0)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_pickle_protocols(kit: Any, protocol: int) -> None:
    data = kit.save(
        OrderedDict(w=torch.ones(2, dtype=torch.bfloat16)), protocol=protocol, legacy=True
    )
    assert kit.values(kit.open(data).tensors["w"]) == b"\x80\x3f" * 2


BROKEN = {
    "cut in a storage": (legacy(tensor(), ["1"], DATA[:-1]), "storage 1 of 1 would end"),
    "no storage": (legacy(tensor(), ["1"], b""), "cut off"),
    "another count": (legacy(tensor(), ["1"], struct.pack("<q", 3) + DATA[8:]), "3 elements"),
    "negative count": (legacy(tensor(), ["1"], struct.pack("<q", -4) + DATA[8:]), "elements"),
    "unknown key": (legacy(tensor(), ["2"], DATA), "no description"),
    "same key twice": (legacy(tensor(), ["1", "1"], DATA * 2), "stands twice"),
    "no keys": (legacy(tensor(), [[]], DATA), "no description"),
    "another version": (legacy(tensor(), ["1"], DATA, protocol=7), "protocol 7"),
    "cut in its pickles": (legacy(tensor(), ["1"], DATA)[:60], "reaches past the end"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_stream_is_refused(kit: Any, case: str) -> None:
    data, match = BROKEN[case]
    with pytest.raises(UserError, match=match):
        kit.open(data)


def test_a_storage_that_is_not_listed(kit: Any) -> None:
    found = kit.open(legacy(tensor(), [], b""))
    with pytest.raises(UserError, match="not in the file"):
        kit.values(found.tensors["tensor"])


def test_bytes_behind_the_last_storage_are_told(kit: Any) -> None:
    assert "3 bytes follow" in kit.open(legacy(tensor(), ["1"], DATA + b"abc")).messages


def test_whole_modules_keep_no_source(kit: Any) -> None:
    """Legacy files store the source of classes beside them, under persistent ids."""
    class_of = b"(X\x06\x00\x00\x00modulecm\nNet\nX\x04\x00\x00\x00n.pyX\x04\x00\x00\x00codetQ"
    tree = b"\x80\x02" + class_of + b")\x81}X\x01\x00\x00\x00w" + tensor()[2:-1] + b"sb."
    assert kit.open(legacy(tree, ["1"], DATA)).file.stubbed == ("m.Net",)


def test_a_plain_pickle_of_tensors(kit: Any) -> None:
    """`pickle.dump` writes every storage as a legacy stream in a string."""
    weights = {"w": torch.arange(5000.0), "b": torch.ones(2, dtype=torch.int8)}
    for protocol in (2, 4, 5):
        found = kit.open(pickle.dumps(weights, protocol))
        assert found.file.container == "pickle"
        assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
            name: kit.raw(tensor) for name, tensor in weights.items()
        }
        assert found.dangerous == []


def test_danger_within_a_string_is_found(kit: Any) -> None:
    inner = io.BytesIO()
    inner.write(pickle.dumps(MAGIC, 2) + pickle.dumps(1001, 2) + b"cos\nsystem\n)R.N.].")
    outer = (
        b"ctorch.storage\n_load_from_bytes\n" + pickle.dumps(inner.getvalue(), 3)[2:-1] + b"\x85R."
    )
    assert kit.open(b"\x80\x03" + outer).dangerous == ["os.system"]


def test_a_plain_pickle_of_arrays(kit: Any) -> None:
    """As detectron2 publishes models: dictionaries of numpy arrays."""
    arrays = {
        "w": np.arange(6, dtype="<f4").reshape(2, 3),
        "t": np.asfortranarray(np.ones((2, 2), ">i2")),
    }
    found = kit.open(pickle.dumps({"model": arrays, "__author__": "x"}, 2))
    assert found.found.sets[0].name == "model"
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        "w": arrays["w"].tobytes(),
        "t": np.ones((2, 2), "<i2").tobytes(),
    }
    assert "numpy arrays are read as tensors" in found.messages


def test_pickles_that_follow_are_judged(kit: Any) -> None:
    found = kit.open(pickle.dumps({"a": 1}, 2) + b"\x80\x02cos\nsystem\n)R.")
    assert found.dangerous == ["os.system"]
    assert "1 more pickles follow" in found.messages


def test_a_magic_number_that_is_computed_is_none(kit: Any) -> None:
    """A loader that unpickles to compare runs what builds it."""
    found = kit.open(b"\x80\x02cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R." + pickle.dumps(1001, 2))
    assert found.file.container == "pickle"
    assert found.dangerous == ["builtins.eval"]


def test_a_broken_pickle_still_tells_its_danger(kit: Any) -> None:
    with pytest.raises(UserError, match=r"up to there it asks for builtins\.exec"):
        kit.open(b"cbuiltins\nexec\n(V1+1\n")


ODD_IDS = {
    "no tuple": (b"K\x01Q", "no storage"),
    "another kind": (b"(X\x01\x00\x00\x00aK\x01tQ", "no storage"),
    "too short": (b"(X\x07\x00\x00\x00storageK\x01tQ", "no storage"),
    "key of none": (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nNNK\x01NtQ", "without key"),
    "class": (b"(X\x07\x00\x00\x00storagecos\nsystem\nK\x01NK\x01NtQ", r"class os\.system"),
    "part of another form": (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nK\x01NK\x01K\x05tQ",
        "another form",
    ),
    "two sizes": (
        b"".join(
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nK\x01NK" + count + b"NtQ"
            for count in (b"\x01", b"\x02")
        ),
        "two types or sizes",
    ),
}


@pytest.mark.parametrize("case", ODD_IDS)
def test_persistent_ids_of_another_form(kit: Any, case: str) -> None:
    data, match = ODD_IDS[case]
    with pytest.raises(UserError, match=match):
        kit.open(legacy(data + b".", ["1"], b""))


def test_a_part_that_reaches_beyond_its_storage(kit: Any) -> None:
    view = b"(X\x01\x00\x00\x00vK\x03K\x02t"
    found = kit.open(legacy(tensor(view=view, size=2), ["1"], DATA))
    with pytest.raises(UserError, match="reaches beyond its end"):
        kit.values(found.tensors["tensor"])


@pytest.mark.parametrize("inner", [b"abc", b"\x80\x02N.", b"\x80\x02\x8a\x0a\x00." + b"N." * 5])
def test_a_string_that_is_no_stream(kit: Any, inner: bytes) -> None:
    data = b"\x80\x03ctorch.storage\n_load_from_bytes\nC" + bytes([len(inner)]) + inner + b"\x85R."
    assert kit.open(data).file.stubbed == ("torch.storage._load_from_bytes",)
