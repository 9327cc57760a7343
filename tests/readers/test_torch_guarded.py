"""Files far away: few requests to list them, and no byte of an entry before its header was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.readers.state_dict import read_sets
from hfconvert.readers.torch_file import read_torch
from hfconvert.readers.torch_guarded import Guard, Guarded
from hfconvert.tensors.box import full
from hfconvert.tensors.lazy import LazyTensor

GAP = 4096


class Far:
    """Bytes whose every read costs a request, unless they were read or staged before."""

    name = "pytorch_model.bin"
    distant = True

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)
        self.near = np.zeros(len(data), np.bool_)
        self.requests: list[tuple[int, int]] = []

    def readinto(self, buffer: memoryview, offset: int) -> None:
        stop = offset + buffer.nbytes
        if not self.near[offset:stop].all():
            self._fetch(offset, stop)
        buffer[:] = self.data[offset:stop]

    def stage(self, ranges: Sequence[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(ranges):
            if merged and start - merged[-1][1] <= GAP:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        for start, stop in merged:
            if not self.near[start:stop].all():
                self._fetch(start, stop)

    def _fetch(self, start: int, stop: int) -> None:
        self.near[start:stop] = True
        self.requests.append((start, stop))


def state(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        f"layers.{number}.weight": torch.randn(3000 + number, generator=generator)
        for number in range(count)
    }


def opened(source: Far) -> dict[str, LazyTensor]:
    return dict(read_sets(read_torch(source).tree, source.name).sets[0].tensors)


def staged(source: Far, tensor: LazyTensor) -> None:
    for part in tensor.needs(full(tensor.extent)):
        part.source.stage([(part.start, part.stop)])


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_many_tensors_are_listed_by_few_requests(kit: Any, legacy: bool) -> None:
    source = Far(kit.save(state(400), legacy=legacy))
    tensors = opened(source)
    assert len(tensors) == 400
    assert len(source.requests) <= 8
    assert sum(stop - start for start, stop in source.requests) < 400_000 < source.size // 10


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_values_come_with_their_headers_in_one_request(kit: Any, legacy: bool) -> None:
    saved = state(400)
    source = Far(kit.save(saved, legacy=legacy))
    tensors = opened(source)
    for name in ("layers.0.weight", "layers.217.weight", "layers.399.weight"):
        before = len(source.requests)
        staged(source, tensors[name])
        assert kit.values(tensors[name], 1000) == kit.raw(saved[name])
        assert len(source.requests) <= before + 1


def test_a_header_of_another_entry_is_found_when_data_are_read(kit: Any) -> None:
    data = bytearray(kit.save(state(40)))
    at = data.index(b"/data/17", data.index(b"/data/16"))
    data[at : at + 8] = b"/data/99"
    tensors = opened(Far(bytes(data)))
    assert kit.values(tensors["layers.16.weight"])
    with pytest.raises(
        UserError, match=r"directory and the header of '.*/data/17' have different"
    ) as caught:
        kit.values(tensors["layers.17.weight"])
    assert caught.value.exit is Exit.SOURCE


def test_a_header_that_leads_elsewhere_is_found_too(kit: Any) -> None:
    """The padding grows by 64: the data would begin later than the directory lets assume."""
    data = bytearray(kit.save(state(40)))
    at = data.index(b"/data/17", data.index(b"/data/16"))
    header = data.rindex(b"PK\x03\x04", 0, at)
    length = int.from_bytes(data[header + 28 : header + 30], "little")
    data[header + 28 : header + 30] = (length + 64).to_bytes(2, "little")
    tensors = opened(Far(bytes(data)))
    with pytest.raises(UserError, match="do not lie where its directory says"):
        kit.values(tensors["layers.17.weight"])


def test_a_count_that_lies_is_found_when_data_are_read(kit: Any) -> None:
    saved = state(3)
    data = bytearray(kit.save(saved, legacy=True))
    raw = kit.raw(saved["layers.1.weight"])
    at = data.index(raw) - 8
    data[at : at + 8] = (77).to_bytes(8, "little")
    tensors = opened(Far(bytes(data)))
    assert kit.values(tensors["layers.0.weight"]) == kit.raw(saved["layers.0.weight"])
    with pytest.raises(UserError, match="has 77 elements in the file, 3001 in its description"):
        kit.values(tensors["layers.1.weight"])


def test_zips_of_other_writers_are_read_header_by_header(kit: Any) -> None:
    """Data that are not aligned: nothing is assumed, and all headers are brought at once."""
    import io
    import zipfile

    saved = state(40)
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(kit.save(saved))) as old,
        zipfile.ZipFile(out, "w") as new,
    ):
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    tensors = opened(Far(out.getvalue()))
    for name, tensor in saved.items():
        assert kit.values(tensors[name]) == kit.raw(tensor)


def test_only_what_is_read_is_checked_and_once() -> None:
    checked: list[str] = []
    source = Far(bytes(range(100)))
    guards = [
        Guard(0, 10, 20, lambda: checked.append("a")),
        Guard(20, 30, 40, lambda: checked.append("b")),
        Guard(40, 50, 50, lambda: checked.append("empty")),
        Guard(50, 60, 100, lambda: checked.append("c")),
    ]
    guarded = Guarded(source, guards)
    buffer = bytearray(5)
    for offset in (12, 14, 62, 33):
        guarded.readinto(memoryview(buffer), offset)
        assert bytes(buffer) == bytes(range(offset, offset + 5))
    assert checked == ["a", "c", "b"]


def test_what_is_staged_brings_the_headers_that_are_not_checked_yet() -> None:
    source = Far(bytes(20_000))
    guarded = Guarded(
        source, [Guard(0, 10, 20, lambda: None), Guard(9000, 9010, 9990, lambda: None)]
    )
    guarded.stage([(12, 15), (9500, 9600)])
    assert source.requests == [(0, 15), (9000, 9600)]
    guarded.readinto(memoryview(bytearray(3)), 12)
    source.requests.clear()
    source.near[:] = False
    guarded.stage([(12, 15)])
    assert source.requests == [(12, 15)]
    guarded.discard()
