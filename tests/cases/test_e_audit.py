"""Nothing follows from a hostile file: an audit hook watches whole commands, in a process of their own."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]

# Arguments: a folder of files, a folder to work in. Commands on files whose names begin with `warm` import
# all that is needed, and do it again to show what is usual; then every event that a file could bring about
# is noted.
WATCH = """
import contextlib, io, json, os, re, sys
from pathlib import Path
from hfconvert.cli import main

files, work = map(Path, sys.argv[1:3])
events = []
watching = False

def allowed(path):
    place = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else str(path)
    return place.startswith((str(work), os.devnull)) or isinstance(path, int)

def opens_to_write(arguments):
    path, mode, flags = arguments
    writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or bool(set(mode or "") & set("wax+"))
    return writes and not allowed(path)

RUNS = ("exec", "compile", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
        "os.startfile", "os.putenv", "pty.spawn", "subprocess.Popen", "webbrowser.open", "ctypes.dlopen",
        "marshal.loads", "pickle.find_class", "code.__new__", "builtins.input", "builtins.breakpoint")
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.symlink", "os.link",
           "os.truncate", "shutil.rmtree", "shutil.move", "shutil.copyfile")

def hook(event, arguments):
    if not watching:
        return
    wrong = event in RUNS or event.startswith(("socket.", "urllib.", "ftplib.", "http.", "smtplib."))
    wrong = wrong or (event == "import" and arguments[0] not in sys.modules)
    wrong = wrong or (event == "open" and opens_to_write(arguments))
    wrong = wrong or (event in CHANGES and not allowed(arguments[0]))
    if wrong:
        told = [re.sub("0x[0-9a-f]+", "0x", str(one)[:200]) for one in arguments]
        events.append(f"{event} {told}")

def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["hfconvert", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main()
    return int(code), out.getvalue(), err.getvalue()

def commands(path, number):
    checks = {"architecture": "off", "logits": "off"}
    codes = []
    for refuse in (True, False):
        recipe = work / f"{number}-{refuse}.yaml"
        source = {"path": str(path), "refuse_dangerous": refuse}
        recipe.write_text(json.dumps({"version": 1, "source": source, "validate": checks}))
        output = str(work / f"{number}-{refuse}")
        codes.append(call("run", str(recipe), "--output", output, "--json"))
    codes.append(call("plan", str(recipe), "--json"))
    codes.append(call("inspect", str(path), "--json"))
    codes.append(call("inspect", str(path)))
    return codes

sys.addaudithook(hook)
warm = sorted(path for path in files.iterdir() if path.name.startswith("warm"))
rest = sorted(path for path in files.iterdir() if not path.name.startswith("warm"))
usual = set()
result = {}
for number, path in enumerate([*warm, *warm, *rest]):
    watching = number >= len(warm)
    codes = commands(path, number)
    watching = False
    if number < 2 * len(warm):  # what the command line itself compiles, whatever the file
        usual.update(events)
    result[path.name] = {"codes": [code for code, _, _ in codes], "said": codes[0][2],
                         "events": [one for one in events if one not in usual],
                         "facts": json.loads(codes[3][1])}
    events.clear()
print(json.dumps(result))
"""


def called(name: str, argument: bytes = b"X\x04\x00\x00\x00true") -> bytes:
    """A call of `module name` with one argument, whose result is thrown away."""
    module, _, attribute = name.rpartition(" ")
    return b"c" + f"{module}\n{attribute}\n".encode() + b"(" + argument + b"tR0"


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def stack_global(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


def beside(weights: dict[str, torch.Tensor], code: bytes) -> bytes:
    """A plain pickle of weights that also does something else."""
    data = pickle.dumps(weights, 4)
    return data[:2] + code + data[2:]


def saved(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def in_zip(data: bytes, entry: str = "data.pkl", content: bytes = b"") -> bytes:
    """What torch.save wrote, with one entry exchanged, or one more."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        top = old.namelist()[0].partition("/")[0]
        for item in old.infolist():
            if item.filename != f"{top}/{entry}":
                new.writestr(item.filename, old.read(item))
        new.writestr(entry if entry.startswith("..") else f"{top}/{entry}", content)
    return out.getvalue()


def in_tar(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        info.size = 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(b"evil"))
    return out.getvalue()


class Runs:
    """Pickled as a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def hostile(mark: Path) -> dict[str, bytes]:
    """Files that would leave a mark, import something or never end, under loaders that obey them."""
    weights = {"w": torch.arange(6.0).reshape(2, 3)}
    touch = f"open({str(mark)!r}, 'w')"
    zipped = saved(weights)
    evil = {**weights, "x": Runs(os.mkdir, str(mark))}
    odd = b"cos\nsystem\n" + text("0") + text("cpu") + b"K\x06"  # no class of a storage
    setstate = b"cmodel\nNet\n)\x81}" + text("__setstate__") + b"cos\nsystem\nsb0"
    return {
        "system.bin": beside(weights, called("os system", text(f"touch {mark}"))),
        "exec.bin": beside(weights, called("builtins exec", text(touch))),
        "eval.bin": beside(weights, called("builtins eval", text(touch))),
        "compile.bin": beside(weights, called("builtins compile", text(touch))),
        "import.bin": beside(weights, called("importlib import_module", text("antigravity"))),
        "global_alone.bin": beside(weights, b"cantigravity\ngeohash\n0cthis\ns\n0"),
        "unknown_module.bin": beside(weights, b"cthis.is.no.module\nThing\n)\x81}b0"),
        "stack_global.bin": beside(
            weights, stack_global("os", "mkdir") + b"(" + text(str(mark)) + b"tR0"
        ),
        "spaced.bin": beside(weights, stack_global("torch.serialization os", "system") + b"0"),
        "dotted.bin": beside(weights, stack_global("torch.serialization", "os.system") + b"0"),
        "popen.bin": beside(weights, called("subprocess Popen", text(f"touch {mark}"))),
        "runpy.bin": beside(weights, called("runpy run_path", text("x.py"))),
        "socket.bin": beside(
            weights, called("socket create_connection", b"(X\x01\x00\x00\x00aK\x01t")
        ),
        "load.bin": beside(weights, called("torch load", text("other.pt"))),
        "hub.bin": beside(weights, called("torch.hub load", text("a/b"))),
        "getattr.bin": beside(weights, b"cbuiltins\ngetattr\n(cos\npath\n" + text("os") + b"tR0"),
        "setstate.bin": beside(weights, setstate),
        "inst.bin": beside(weights, b"(" + text(f"touch {mark}") + b"ios\nsystem\n0"),
        "obj.bin": beside(weights, b"(cos\nsystem\n" + text(f"touch {mark}") + b"o0"),
        "extension.bin": beside(weights, b"\x82\x010"),
        "protocol_0.bin": b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.",
        "cut_off.bin": b"\x80\x04" + called("os system", text(f"touch {mark}")) + b"(",
        "second_stream.bin": pickle.dumps(weights, 4) + pickle.dumps(Runs(os.mkdir, str(mark)), 4),
        "zip.pt": saved(evil),
        "legacy.pt": saved(evil, _use_new_zipfile_serialization=False),
        "object_array.pt": saved({**weights, "x": _object_array(Runs(os.mkdir, str(mark)))}),
        "persistent.pt": in_zip(zipped, content=b"\x80\x02cos\nsystem\nQ."),
        "storage_class.pt": in_zip(zipped, content=b"\x80\x02(" + text("storage") + odd + b"tQ."),
        "script.pt": in_zip(
            in_zip(zipped, "constants.pkl", b"\x80\x02)."), "code/x.py", touch.encode()
        ),
        "traversal.pt": in_zip(zipped, "../../evil", b"evil"),
        "traversal.tar": in_tar("../../evil"),
        "absolute.tar": in_tar("/tmp/evil"),
        "link.tar": in_tar("weights.pt", tarfile.SYMTYPE),
        "loop.bin": b"\x80\x02]q\x00h\x00a.",
        "deep.bin": b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
    }


def _object_array(value: Any) -> Any:
    import numpy as np

    made = np.empty(1, dtype=object)
    made[0] = value
    return made


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of every file; the mark that they would leave is looked for here."""
    work = tmp_path_factory.mktemp("audit")
    files, mark = work / "files", work / "MARK"
    files.mkdir()
    weights = {"w": torch.ones(2), "b": torch.zeros(2, dtype=torch.bfloat16)}
    warm = {
        "warm_zip.pt": saved(weights),
        "warm_legacy.pt": saved(weights, _use_new_zipfile_serialization=False),
        "warm_danger.bin": beside(weights, called("os system")),
        "warm_broken.bin": b"\x80\x02(",
        "warm_tar.tar": in_tar("notes.txt"),
    }
    for name, data in {**warm, **hostile(mark)}.items():
        (files / name).write_bytes(data)
    (work / "outputs").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", WATCH, str(files), str(work / "outputs")],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not mark.exists()
    assert {path.name for path in work.iterdir()} == {"files", "outputs"}
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


NAMES = sorted(hostile(Path("/mark")))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_follows_from_a_hostile_file(watched: dict[str, Any], name: str) -> None:
    found = watched[name]
    assert found["events"] == []
    run, run_anyway, plan, inspect, inspect_text = found["codes"]
    assert {run, run_anyway, plan} <= {0, 3}
    assert (inspect, inspect_text) == (0, 0)
    assert "Traceback" not in found["said"]


HARMLESS = {
    *("global_alone.bin", "unknown_module.bin", "extension.bin", "loop.bin", "deep.bin"),
    *("script.pt", "traversal.pt", "traversal.tar", "absolute.tar", "link.tar"),
    *("persistent.pt", "storage_class.pt", "object_array.pt"),
}


@pytest.mark.parametrize("name", sorted(set(NAMES) - HARMLESS))
def test_what_would_run_is_named_and_stops_a_conversion(watched: dict[str, Any], name: str) -> None:
    found = watched[name]
    assert found["codes"][0] == 3
    assert "asks for" in found["said"]
    assert any(one["dangerous"] for one in found["facts"]["pickle"])
    assert found["facts"]["safe"] is False


def test_ordinary_files_are_safe(watched: dict[str, Any]) -> None:
    for name in ("warm_zip.pt", "warm_legacy.pt"):
        assert watched[name]["codes"] == [0, 0, 0, 0, 0]
        assert watched[name]["facts"]["safe"] is True
        assert watched[name]["facts"]["pickle"][0]["dangerous"] == []


def test_the_hook_sees_what_it_has_to(tmp_path: Path) -> None:
    """The watcher itself: a loader that obeys the same kind of file is caught."""
    script = WATCH.replace(
        "codes = commands(path, number)",
        "import pickle; codes = [(0, '{}', '')] * 5; watching and pickle.loads(path.read_bytes())",
    )
    files = tmp_path / "files"
    files.mkdir()
    mark = tmp_path / "MARK"
    (files / "warm.bin").write_bytes(pickle.dumps(1))
    (files / "x.bin").write_bytes(pickle.dumps(Runs(os.mkdir, str(mark))))
    ran = subprocess.run(
        [sys.executable, "-c", script, str(files), str(tmp_path / "outputs")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    events = json.loads(ran.stdout)["x.bin"]["events"]
    assert any(event.startswith("pickle.find_class") for event in events)
    assert any(event.startswith("os.mkdir") for event in events)
