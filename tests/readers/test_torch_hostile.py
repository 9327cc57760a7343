"""Hostile files do nothing: an audit hook sees no import, code, process, socket or open for writing."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PARTS: tuple[Any, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
MAGIC = b"".join(pickle.dumps(part, 2) for part in PARTS)
ROOT = Path(__file__).parent.parent.parent


def word(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def reduce(module: str, name: str, *args: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(args) + b"tR"


EVIL = word("EVIL")
NESTED = MAGIC + reduce("os", "mkdir", EVIL) + b".]."
PAYLOADS: dict[str, bytes] = {
    "system": reduce("os", "system", word("mkdir EVIL")),
    "mkdir": reduce("posix", "mkdir", EVIL),
    "popen": reduce("subprocess", "Popen", word("mkdir"), EVIL),
    "eval": reduce("builtins", "eval", word("__import__('os').mkdir('EVIL')")),
    "exec": reduce("__builtin__", "exec", word("open('EVIL', 'w')")),
    "compile": reduce("builtins", "compile", word("1"), EVIL, word("exec")),
    "open": reduce("builtins", "open", EVIL, word("w")),
    "io": reduce("_io", "FileIO", EVIL, word("w")),
    "import": reduce("builtins", "__import__", word("antigravity")),
    "importlib": reduce("importlib", "import_module", word("this")),
    "runpy": reduce("runpy", "run_path", EVIL),
    "socket": reduce("socket", "create_connection", word("127.0.0.1"), b"K\x09"),
    "ctypes": reduce("ctypes", "CDLL", word("libc.so.6")),
    "code": reduce("types", "CodeType", b"K\x00" * 6),
    "write_text": b"X\x07\x00\x00\x00pathlibX\x0f\x00\x00\x00Path.write_text\x93"
    b"(" + reduce("pathlib", "PosixPath", EVIL) + EVIL + b"tR",
    "attrgetter": reduce("operator", "attrgetter", word("system")) + b"cos\nsystem\n\x85R",
    "getattr": reduce("builtins", "getattr", b"cos\nsystem\n", word("__call__")) + EVIL + b"\x85R",
    "instance": b"(" + word("mkdir EVIL") + b"ios\nsystem\n",
    "object": b"(cos\nsystem\n" + word("mkdir EVIL") + b"o",
    "newobj": b"cos\nmkdir\n" + EVIL + b"\x85\x81",
    "newobj_ex": b"cos\nmkdir\n" + EVIL + b"\x85}\x92",
    "build": b"cos\npath\n}" + word("__setstate__") + b"cos\nsystem\nsb",
    "setstate": b"cpickle\nUnpickler\n)\x81" + EVIL + b"b",
    "torch.load": reduce("torch", "load", EVIL),
    "torch.hub": reduce("torch.hub", "load", EVIL, word("m")),
    "numpy.load": reduce("numpy", "load", EVIL),
    "codecs": reduce("codecs", "open", EVIL, word("w")),
    "odd codec": reduce("_codecs", "encode", word("a"), word("antigravity")),
    "from bytes": reduce(
        "torch.storage", "_load_from_bytes", b"B" + struct.pack("<I", len(NESTED)) + NESTED
    ),
    "reconstructor": reduce("copyreg", "_reconstructor", b"cos\nsystem\n", b"cos\nsystem\n", EVIL),
    "newobj function": reduce("copyreg", "__newobj__", b"cos\nmkdir\n", EVIL),
    "from type": reduce(
        "torch._tensor", "_rebuild_from_type_v2", b"cos\nmkdir\n", b"N", b"(" + EVIL + b"t", b"N"
    ),
    "wrapper": reduce("torch._utils", "_rebuild_wrapper_subclass", b"cos\nmkdir\n" + b"N" * 7),
    "key": b"}" + reduce("os", "mkdir", EVIL) + b"K\x01s",
    "persistent": b"(" + reduce("os", "mkdir", EVIL) + b"tQ",
    "source": b"(" + word("module") + b"cos\nmkdir\n" + EVIL + EVIL + b"tQ" + EVIL + b"\x85R",
    "storage class": b"("
    + word("storage")
    + b"cos\nmkdir\n"
    + word("0")
    + word("cpu")
    + b"K\x01tQ",
    "extension": b"\x82\x01" + EVIL + b"\x85R",
    "hidden": b"ctorch.serialization os\nsystem\n" + EVIL + b"\x85R",
}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
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


SCRIPT = {"m/code/x.py": b"import os\nos.mkdir('EVIL')\n", "m/version": b"3\n"}
OLD = {"sys_info": b"}.", "storages": b"K\x00.].", "tensors": b"K\x00."}
CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "pickle": lambda data: b"\x80\x04" + data + b".",
    "old pickle": lambda data: data + b".",
    "second pickle": lambda data: b"\x80\x02N.\x80\x02" + data + b".",
    "legacy": lambda data: MAGIC + data + b".].",
    "legacy keys": lambda data: MAGIC + b"N." + data + b".",
    "zip": lambda data: zipped({"m/data.pkl": data + b".", "m/version": b"3\n"}),
    "script": lambda data: zipped({**SCRIPT, "m/data.pkl": data + b".", "m/constants.pkl": b")."}),
    "constants": lambda data: zipped(
        {**SCRIPT, "m/data.pkl": b").", "m/constants.pkl": data + b"."}
    ),
    "package": lambda data: zipped(
        {"m/.data/extern_modules": b"os\n", "m/model/m.pkl": data + b"."}
    ),
    "tar": lambda data: tarred({**OLD, "pickle": data + b"."}),
    "tar table": lambda data: tarred({**OLD, "pickle": b"N.", "storages": data + b"."}),
    "in a tar": lambda data: tarred({"a/model.pt": b"\x80\x02" + data + b"."}),
    "in a zip": lambda data: zipped({"a/model.bin": b"\x80\x02" + data + b"."}),
}

WATCH = """
import sys, json, pathlib, codecs, atexit
from hfconvert.errors import UserError
from hfconvert.tensors.source import LocalFile
from hfconvert.readers.torch_file import read_torch
from hfconvert.readers.state_dict import facts, read_sets
for codec in ("latin1", "ascii", "raw-unicode-escape", "cp437"):
    codecs.lookup(codec)
seen, names, told = [], [], {}
QUIET = ("object.__getattr__", "object.__setattr__", "sys._getframe", "os.listdir", "os.scandir")
def watch(event, args):
    if event == "open" and not (args[2] & 0o3 or "w" in str(args[1])):
        names.append(str(args[0]))
    elif event not in QUIET:
        seen.append([event, repr(args)[:200]])
files = sorted(pathlib.Path("files").iterdir())
sys.addaudithook(watch)
for path in files:
    try:
        file = read_torch(LocalFile.of(path))
        found = read_sets(file.tree, path.name)
        facts(file.tree)
        for one in found.sets:
            for tensor in one.tensors.values():
                list(tensor.needs(tuple((0, size) for size in tensor.extent)))
        told[path.name] = [str(i) for i in file.imports if i.verdict == "dangerous"]
    except UserError as error:
        told[path.name] = str(error)
watched = list(seen)
import pickle
pickle.loads(b"cos\\ngetpid\\n.")
json.dump({"seen": watched, "opened": names, "told": told, "control": seen[len(watched):]}, sys.stdout)
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every payload in every container, read in a fresh interpreter under an audit hook."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "files").mkdir()
    for number, (name, payload) in enumerate(PAYLOADS.items()):
        for kind, wrap in CONTAINERS.items():
            (folder / "files" / f"{number:02}-{name}-{kind}.pt").write_bytes(wrap(payload))
    run = subprocess.run(
        [sys.executable, "-c", WATCH],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert not (folder / "EVIL").exists()
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def test_nothing_happens_but_reading(watched: dict[str, Any]) -> None:
    assert watched["seen"] == []
    assert {Path(name).parts[0] for name in watched["opened"]} == {"files"}


def test_the_hook_would_see_a_real_unpickler(watched: dict[str, Any]) -> None:
    assert "pickle.find_class" in {event for event, _ in watched["control"]}


def test_every_file_was_read(watched: dict[str, Any]) -> None:
    assert len(watched["told"]) == len(PAYLOADS) * len(CONTAINERS)


HARMLESS = {"odd codec", "extension"}  # they name nothing that does harm


def test_every_file_is_judged_dangerous_or_refused(watched: dict[str, Any]) -> None:
    quiet = {
        name
        for name, told in watched["told"].items()
        if not told and name.split("-")[1] not in HARMLESS
    }
    assert quiet == set()
