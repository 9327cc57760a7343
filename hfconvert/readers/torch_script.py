"""TorchScript archives and torch.package archives: tensors only; the code in them is never touched.

After `torch/csrc/jit/serialization` (torch 1.4 and later: `data.pkl` holds the module, `constants.pkl` its
constants, `code/` its code) and `torch.package.PackageImporter` (`.data/KEY.storage`, one pickle a resource).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfconvert.pickles.state import RefusedError
from hfconvert.pickles.values import Plain, Table
from hfconvert.readers.torch_found import TorchFile, refused
from hfconvert.readers.torch_legacy import inert_unpickler
from hfconvert.readers.torch_walk import Walk, holds_tensors
from hfconvert.readers.torch_zip import Entry
from hfconvert.readers.torch_zip_file import Storages, is_big, load_entry
from hfconvert.tensors.source import ByteSource

MAX_RESOURCES = 1000


def is_script(entries: Mapping[str, Entry], top: str) -> bool:
    """Whether the zip is a TorchScript archive."""
    return f"{top}constants.pkl" in entries


def read_torch_script(source: ByteSource, entries: Mapping[str, Entry], top: str) -> TorchFile:
    """Read parameters, buffers and constants. UserError (exit 3)."""
    big = is_big(source, entries, top)
    data = Storages(source, entries, lambda key: f"{top}data/{key}", big=big)
    constants = Storages(source, entries, lambda key: f"{top}constants/{key}", big=big)
    unpickler = inert_unpickler(source, data.load)
    tree = load_entry(source, entries[f"{top}data.pkl"], unpickler)
    fixed = load_entry(source, entries[f"{top}constants.pkl"], unpickler.another(constants.load))
    if holds_tensors(fixed, Walk()):
        tree = Table("torchscript", {"parameters": tree, "constants": fixed})
    return TorchFile(
        "torchscript",
        tree,
        unpickler.imports,
        unpickler.stubbed,
        data.findings() + constants.findings(),
        data.checksums() + constants.checksums(),
        packed=data.packed or constants.packed,
    )


def package_top(entries: Mapping[str, Entry]) -> str | None:
    """The top folder of a torch.package archive; None for any other zip."""
    for name in entries:
        top, found, _ = name.partition(".data/extern_modules")
        if found:
            return top
    return None


def read_torch_package(source: ByteSource, entries: Mapping[str, Entry], top: str) -> TorchFile:
    """Read every pickled resource of a package. UserError (exit 3)."""
    storages = Storages(source, entries, lambda key: f"{top}.data/{key}.storage")

    def persistent(persistent_id: Any) -> Any:
        if type(persistent_id) is tuple and persistent_id and persistent_id[0] == "reduce_package":
            return Plain("torch.package reduce", persistent_id[1:])
        if type(persistent_id) is not tuple:
            raise RefusedError("it refers to an object that is no storage")
        return storages.load(persistent_id)

    names = [name for name in entries if name.startswith(top) and name.endswith(".pkl")]
    if len(names) > MAX_RESOURCES:
        raise refused(source, f"it is a package of {len(names)} pickles")
    unpickler = inert_unpickler(source, persistent)
    trees = {name[len(top) :]: load_entry(source, entries[name], unpickler) for name in names}
    walk = Walk()
    full = {name: tree for name, tree in trees.items() if holds_tensors(tree, walk)}
    tree = next(iter(full.values())) if len(full) == 1 else Table("archive", full or trees)
    return TorchFile(
        "package",
        tree,
        unpickler.imports,
        unpickler.stubbed,
        storages.findings(),
        storages.checksums(),
        packed=storages.packed,
    )
