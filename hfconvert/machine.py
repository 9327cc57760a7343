"""What this process and its libraries are: versions, and the peak of its memory."""

from __future__ import annotations

import gc
import platform
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hfconvert import __version__

LIBRARIES = ("safetensors", "numpy", "ml_dtypes", "huggingface_hub")
LATE = ("torch", "transformers", "peft")  # named only where the run used them


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that had a part in the run."""
    used = [name for name in LATE if name in sys.modules]
    found = {"python": platform.python_version(), "hfconvert": __version__}
    for name in (*LIBRARIES, *used):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def collection_paused() -> Iterator[None]:
    """No passes of the garbage collector: over many objects that all stay, they take a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def peak_memory_bytes() -> int:
    """The highest resident memory of this process so far, in bytes.

    From VmHWM where the system has it: `ru_maxrss` of a child begins at its parent's figure.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
