"""One file of a source, looked at: what it is, what it holds, what is wrong with it. Reads no tensor."""

from __future__ import annotations

from dataclasses import dataclass

from hfconvert.errors import Problem, UserError
from hfconvert.findings import Finding, warning
from hfconvert.inspect.roles import Role, is_optimizer, may_be_pickle, note_of
from hfconvert.readers.contents import Contents, PickleFacts
from hfconvert.readers.formats import read_file
from hfconvert.readers.torch_archive import packing
from hfconvert.readers.torch_found import BrokenFileError
from hfconvert.readers.torch_sniff import DAMAGED, HEAD, Stranger, recognize
from hfconvert.tensors.source import SourceFile, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file that was looked at.

    `format` is the container that was read, or a short name of what the first bytes say; `note` says it in
    words. `contents` are None where it was not opened, or could not be read: then `problems` say why.
    """

    file: SourceFile
    role: Role
    format: str | None
    note: str = ""
    contents: Contents | None = None
    pickle: PickleFacts | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()


def look(file: SourceFile, *, is_weights: bool, alone: bool, aside: str = "") -> Seen:
    """Look at a file. `is_weights` says that a conversion reads it; `alone` that it was named itself.

    `aside` says why a file of weights is left aside. What a file holds is read where it is weights, state of
    a training run, or a pickle under any name; never more than its headers and pickles.
    """
    note = note_of(file.name)
    role: Role = "weights" if is_weights else "optimizer" if is_optimizer(file.name) else "other"
    try:
        head = bytes(read(file, 0, min(file.size, HEAD)))
    except UserError as error:
        return Seen(file=file, role=role, format=None, note=note, problems=error.problems)
    wanted = is_weights or alone
    stranger = _stranger(head)
    if not wanted and not _worth_opening(file.name, head, stranger):
        return _not_opened(file, role, note, stranger)
    try:
        contents = read_file(file, "auto")
    except UserError as error:
        return _unread(file, role, note, stranger, error, wanted=wanted)
    if not aside and not note and role == "other" and not alone and contents.sets:
        note = "weights that are not read"
    return Seen(
        file=file,
        role=_role(role, contents),
        format=contents.container,
        note=note or (f"left aside: {aside}" if aside else ""),
        contents=contents,
        pickle=contents.pickle,
        problems=contents.refusal.problems if contents.refusal and wanted else (),
        findings=contents.findings if wanted else (),
    )


def _stranger(head: bytes) -> Stranger | None:
    if head[8:9] == b"{":  # as a safetensors file has it
        return None
    return recognize(head)


def _worth_opening(name: str, head: bytes, stranger: Stranger | None) -> bool:
    if packing(head) or name.endswith((".tar", ".zip", ".npz")):
        return False
    if stranger is not None and (stranger.known or not may_be_pickle(name)):
        return False  # text may be a pickle of protocol 0
    pickled = len(head) > 2 and head[0] == 0x80 and head[1] in range(2, 6)
    return may_be_pickle(name) or pickled


def _not_opened(file: SourceFile, role: Role, note: str, stranger: Stranger | None) -> Seen:
    """A file beside the weights: a pointer is told for what it is, whatever its name."""
    if stranger is None:
        return Seen(file=file, role=role, format=None, note=note)
    wrong = stranger.code == "lfs-pointer" or (
        stranger.code in DAMAGED and may_be_pickle(file.name)
    )
    said = (warning("files", file.name, f"it is {stranger.told}"),) if wrong else ()
    told = stranger.told if wrong or not note else note
    return Seen(
        file=file,
        role=role,
        format=stranger.code,
        note=told if stranger.known or note else "",
        findings=said,
    )


def _unread(
    file: SourceFile,
    role: Role,
    note: str,
    stranger: Stranger | None,
    error: UserError,
    *,
    wanted: bool,
) -> Seen:
    """A file that could not be read: a problem where it was wanted, else a warning."""
    foreign = stranger is not None and stranger.known and stranger.code not in DAMAGED
    imports = error.imports if isinstance(error, BrokenFileError) else ()
    said = () if wanted else (warning("files", file.name, error.problems[0].what),)
    return Seen(
        file=file,
        role="other" if foreign else role,
        format=stranger.code if stranger else None,
        note=note or (stranger.told if stranger and stranger.known else ""),
        pickle=PickleFacts(imports) if imports else None,
        problems=error.problems if wanted else (),
        findings=said,
    )


def _role(role: Role, contents: Contents) -> Role:
    """Weights are what has sets of weights; what holds nothing but an optimizer's state is told as that."""
    if role != "weights" or contents.sets:
        return role
    return "optimizer" if any(one.role == "optimizer" for one in contents.others) else "other"
