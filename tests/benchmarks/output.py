"""The arguments that every benchmark takes, and the two forms in which it prints its figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Figures = Mapping[str, object]


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the arguments that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--workdir", type=Path, help="where the data goes (default: a temporary folder)"
    )
    return parser


@contextmanager
def open_workdir(parent: Path | None) -> Iterator[Path]:
    """A new folder in `parent`, which is made if need be; removed with all it holds at the end."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hfconvert-benchmark-", dir=parent) as folder:
        yield Path(folder)


def show(title: str, figures: Figures, *, as_json: bool) -> None:
    """Print one benchmark's figures, with the machine that they hold for."""
    machine = {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    if as_json:
        print(json.dumps({"benchmark": title, "machine": machine, **figures}, indent=2))
        return
    print(f"{title} ({machine['cpus']} CPUs, Python {machine['python']})")
    for name, value in figures.items():
        _show_value(name, value, indent=2)


def _show_value(name: str, value: object, *, indent: int) -> None:
    label = " " * indent + name.replace("_", " ")
    if isinstance(value, Mapping):
        print(label)
        for inner, figure in value.items():
            _show_value(str(inner), figure, indent=indent + 2)
    elif isinstance(value, list):
        print(label)
        for number, row in enumerate(value, 1):
            cells = "  ".join(f"{key.replace('_', ' ')} {figure}" for key, figure in row.items())
            print(f"{' ' * (indent + 2)}{number}: {cells}")
    elif name.endswith("_bytes") and isinstance(value, int):
        print(f"{label.removesuffix(' bytes'):34}{value / 1e6:12,.1f} MB")
    else:
        print(f"{label:34}{value!s:>12}")
