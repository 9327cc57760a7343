"""Compressed files and archives around checkpoints."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.readers import torch_archive, torch_sources

WEIGHTS = {"w": torch.arange(50_000.0), "b": torch.ones(3, dtype=torch.bfloat16)}

ZSTD: Any = importlib.import_module(
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
)


def zstd(data: bytes) -> bytes:
    packed: bytes = ZSTD.compress(data)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def holds_weights(kit: Any, found: Any) -> bool:
    return {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in WEIGHTS.items()
    }


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_checkpoints(kit: Any, kind: str, legacy: bool) -> None:
    found = kit.open(PACKERS[kind](kit.save(WEIGHTS, legacy=legacy)))
    assert holds_weights(kit, found)
    assert found.file.container == f"{kind} of {'legacy' if legacy else 'zip'}"
    assert f"{kind} was around it" in found.messages


@pytest.mark.parametrize("kind", PACKERS)
def test_streams_that_follow_each_other(kit: Any, kind: str) -> None:
    data = kit.save(WEIGHTS)
    pack = PACKERS[kind]
    assert holds_weights(kit, kit.open(pack(data[:70_000]) + pack(data[70_000:]) + bytes(100)))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_or_damaged_stream(kit: Any, kind: str) -> None:
    packed = PACKERS[kind](kit.save(WEIGHTS))
    for data in (packed[:-20], packed[: len(packed) // 2] + b"\xff" * 40 + packed[-40:]):
        with pytest.raises(UserError, match=f"{kind} data is damaged|checksum|zip"):
            kit.open(data)


def test_a_bomb_is_not_unpacked(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_sources, "SMALL", 1000)
    with pytest.raises(UserError, match="unpacks to more than") as caught:
        kit.open(gzip.compress(bytes(10_000_000)))
    assert caught.value.exit is Exit.SOURCE


def test_blocks_of_unpacked_data_are_bounded(kit: Any) -> None:
    for kind, pack in PACKERS.items():
        source = kit.source(pack(bytes(9_000_000)))
        blocks = [len(block) for block in torch_archive._unpacked(source, kind)]
        assert sum(blocks) == 9_000_000
        assert max(blocks) <= 1 << 20


def test_zstd_needs_a_module(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="compressed with zstd") as caught:
        kit.open(b"\x28\xb5\x2f\xfd" + bytes(20))
    assert "pip install backports.zstd" in str(caught.value)


def test_frames_of_zstd_that_hold_no_data_are_passed_over(kit: Any) -> None:
    data = kit.save(WEIGHTS)
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    found = kit.open(zstd(data[:70_000]) + skipped + zstd(data[70_000:]))
    assert found.file.container == "zstd of zip"
    assert holds_weights(kit, found)


def test_zstd_that_asks_for_too_much_memory_is_refused(kit: Any) -> None:
    """A window of 2 GiB, of which the decoder would need as much memory."""
    parameter = ZSTD.CompressionParameter
    options = {parameter.window_log: parameter.window_log.bounds()[1]}
    compressor = ZSTD.ZstdCompressor(options=options)
    packed = compressor.compress(bytes(10_000), mode=compressor.FLUSH_BLOCK) + compressor.flush()
    with pytest.raises(UserError, match="zstd data is damaged or cut off"):
        kit.open(packed)


ARCHIVES: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "zip": zipped,
    "deflated zip": lambda files: zipped(files, zipfile.ZIP_DEFLATED),
    "tar": tarred,
    "tar.gz": lambda files: gzip.compress(tarred(files)),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_one_checkpoint_among_other_files(kit: Any, kind: str) -> None:
    files = {
        "config.json": b"{}",
        "weights.th": kit.save(WEIGHTS, legacy=True),
        "vocab/a.txt": b"a\n",
    }
    found = kit.open(ARCHIVES[kind](files))
    assert holds_weights(kit, found)
    assert "weights.th" in found.messages


def test_an_archive_of_a_model_and_its_optimizer(kit: Any) -> None:
    """As Stable-Baselines3 saves."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    files = {
        "data": b'{"policy_class": {":serialized:": "gAWVMAA"}}',
        "policy.optimizer.pth": kit.save(optimizer.state_dict()),
        "policy.pth": kit.save(model.state_dict()),
    }
    found = kit.open(zipped(files))
    assert list(found.tensors) == ["weight", "bias"]
    assert found.file.container == "zip of zip"


def test_an_archive_of_two_models(kit: Any) -> None:
    found = kit.open(tarred({"a.pt": kit.save(WEIGHTS), "b.pt": kit.save(WEIGHTS, legacy=True)}))
    assert [(one.name, len(one.tensors)) for one in found.found.sets] == [("a.pt", 2), ("b.pt", 2)]
    assert found.found.default is None
    assert kit.values(found.found.sets[1].tensors["w"]) == kit.raw(WEIGHTS["w"])


def test_values_lie_in_the_outer_file(kit: Any) -> None:
    """Nothing is unpacked from an archive that only stores."""
    found = kit.open(tarred({"x/y.pt": kit.save(WEIGHTS)}))
    assert kit.reads_what_it_needs(found.tensors["w"], found.source)
    assert found.source.reads


def test_danger_in_any_member_is_told(kit: Any) -> None:
    found = kit.open(tarred({"w.pt": kit.save(WEIGHTS), "x.pkl": b"\x80\x02cos\nsystem\n)R."}))
    assert found.dangerous == ["os.system"]


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_without_a_checkpoint(kit: Any, kind: str) -> None:
    with pytest.raises(UserError, match=r"archive without a checkpoint; it has notes\.txt"):
        kit.open(ARCHIVES[kind]({"notes.txt": b"hello"}))


def test_an_archive_of_too_many(kit: Any) -> None:
    small = kit.save({"w": torch.ones(1)})
    with pytest.raises(UserError, match="archive of 17 checkpoints"):
        kit.open(tarred({f"{index}.pt": small for index in range(17)}))


def test_a_broken_member_is_named(kit: Any) -> None:
    with pytest.raises(UserError, match=r"b\.pt: it is a zip without an end"):
        kit.open(tarred({"a.pt": kit.save(WEIGHTS), "b.pt": kit.save(WEIGHTS)[:-5]}))


def test_archives_in_archives_end(kit: Any) -> None:
    data = kit.save(WEIGHTS)
    for _ in range(3):
        data = gzip.compress(data)
    assert holds_weights(kit, kit.open(data))
    with pytest.raises(UserError, match="archive in an archive"):
        kit.open(gzip.compress(gzip.compress(data)))


def test_safetensors_within_an_archive(kit: Any) -> None:
    from safetensors.torch import save

    found = kit.open(tarred({"model.bin": save(WEIGHTS)}))
    assert found.file.container == "tar of safetensors"
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in WEIGHTS.items()
    }


def test_a_full_disk_is_said(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(UserError, match="No space left on device") as caught:
        kit.open(gzip.compress(kit.save(WEIGHTS)))
    assert caught.value.exit is Exit.RESOURCES
    assert "TMPDIR" in str(caught.value)
