"""Damaged files of every container meet our own error, or read as something; nothing else happens."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import random
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from hfconvert.errors import UserError
from hfconvert.pickles.machine import OPCODES
from hfconvert.readers.state_dict import facts

CODES = [*OPCODES, b"."]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("count", torch.tensor(3))


def checkpoint() -> dict[str, Any]:
    base = torch.arange(24.0).reshape(4, 6)
    return {
        "state_dict": {
            "a.weight": base.t(),
            "a.bias": base[1:, 2],
            "half": torch.ones(3).bfloat16(),
        },
        "model": Net(),
        "epoch": 3,
        "hyper_parameters": {"lr": 0.1, "names": ["a", "b"], "set": {1, 2}, "bytes": b"x" * 40},
        "sparse": torch.eye(2).to_sparse(),
    }


def bases() -> dict[str, bytes]:
    """One small file of every container; zips without checksums, so that a change is not noticed at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zipped, checked, legacy = io.BytesIO(), io.BytesIO(), io.BytesIO()
        torch.save(checkpoint(), checked)
        torch.serialization.set_crc32_options(False)
        try:
            torch.save(checkpoint(), zipped)
        finally:
            torch.serialization.set_crc32_options(True)
        torch.save(checkpoint(), legacy, _use_new_zipfile_serialization=False)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("a/weights.th")
        info.size = len(legacy.getvalue())
        tar.addfile(info, io.BytesIO(legacy.getvalue()))
    deflated = io.BytesIO()
    with (
        zipfile.ZipFile(checked) as old,
        zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return {
        "zip": zipped.getvalue(),
        "legacy": legacy.getvalue(),
        "tar": archive.getvalue(),
        "gzip": gzip.compress(legacy.getvalue(), mtime=0),
        "deflated": deflated.getvalue(),
        "pickle": pickle.dumps({"w": torch.arange(3.0), "x": [1, {"y": 2.0}]}, 4),
    }


def flip(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.randint(1, 8)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


def drop(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.randint(1, 40)]


def double(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at:at] = data[at : at + dice.randint(1, 200)]


def edit(data: bytearray, dice: random.Random) -> None:
    """Opcodes over other bytes, most often within the first pickle."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(min(len(data), 4000))
        data[at : at + 1] = dice.choice(CODES)


def numbers(data: bytearray, dice: random.Random) -> None:
    """Sizes and offsets at their limits."""
    at = dice.randrange(len(data))
    data[at : at + 4] = dice.choice(
        [b"\xff" * 4, b"\x00" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80"]
    )


CHANGES: list[Callable[[bytearray, random.Random], None]] = [flip, cut, drop, double, edit, numbers]


def read_all(kit: Any, data: bytes) -> None:
    found = kit.open(data)
    facts(found.file.tree)
    for one in found.found.sets:
        for lazy in one.tensors.values():
            if lazy.spec.nbytes < 1 << 20:
                with contextlib.suppress(UserError):
                    kit.values(lazy)


def rounds(kit: Any, count: int, seed: int) -> None:
    files = bases()
    for kind, data in files.items():
        read_all(kit, data)
        for number in range(count):
            dice = random.Random(f"{seed} {kind} {number}")
            changed = bytearray(data)
            for _ in range(dice.randint(1, 2)):
                if changed:
                    dice.choice(CHANGES)(changed, dice)
            with contextlib.suppress(UserError):
                read_all(kit, bytes(changed))


def test_damage_meets_one_error(kit: Any) -> None:
    rounds(kit, 120, 1)


@pytest.mark.slow
def test_much_damage_meets_one_error(kit: Any) -> None:
    rounds(kit, 5000, 2)
