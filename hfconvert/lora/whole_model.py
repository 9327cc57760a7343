"""Engine `model`: transformers loads the base, PEFT merges all of it, and single tensors are taken from that.

For who wants PEFT's own `merge_and_unload` and has the memory. transformers and PEFT are imported when the
first tensor is asked for.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hfconvert.dtypes.convert import FLOATS
from hfconvert.errors import Problem, UserError, source_problem
from hfconvert.lora.merged import Merged
from hfconvert.lora.peft_module import probe_within
from hfconvert.lora.whole import lost_values
from hfconvert.readers.load import Wanted, load
from hfconvert.tensors.box import Box, Shape
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import (
    Input,
    LazyTensor,
    Mesh,
    Place,
    RawArray,
    TensorSpec,
    needs_of_inputs,
)
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.tally import Loss, Tally


@dataclass(frozen=True)
class WholeModel:
    """A merged model, made when it is first needed and kept on disk until the process ends.

    `root` is the folder of the base, `adapters` those of the adapters in their order.
    """

    root: Path
    adapters: tuple[Path, ...]
    native: bool
    nbytes: int  # of the base as stored
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _made: list[Any] = field(default_factory=list, repr=False, compare=False)
    _unmerged: list[Any] = field(default_factory=list, repr=False, compare=False)

    def tensor(self, name: str) -> LazyTensor:
        """A tensor of the merged model. UserError (exit 3) where the model cannot be made or lacks it."""
        with self._lock:
            if not self._made:
                self._made.extend(self._merged())
            tensors: Mapping[str, LazyTensor] = self._made[1]
        if name not in tensors:
            raise UserError(_problem(self.root, f"the merged model has no tensor {name}"))
        return tensors[name]

    def probe(self, module: str) -> dict[str, Any]:
        """The parameters of a module by its forward pass in float64, with base and adapters side by side.

        UserError (exit 3) where the model cannot be made.
        """
        with self._lock, _told(self.root):
            if not self._unmerged:
                self._unmerged.append(_unmerged(self.root, self.adapters))
            return probe_within(self._unmerged[0], module)

    def _merged(self) -> tuple[tempfile.TemporaryDirectory[str], dict[str, LazyTensor]]:
        folder = tempfile.TemporaryDirectory(prefix="hfconvert-merged-")
        try:
            with _told(self.root):
                _merge(self.root, self.adapters, Path(folder.name), native=self.native)
        except UserError:
            folder.cleanup()
            raise
        found = load(Path(folder.name), Wanted())
        return folder, {name: entry.tensor for name, entry in found.checkpoint.items()}


@dataclass(frozen=True, slots=True)
class OfModel:
    """One tensor of a merged model, rounded once to `dtype`; `base` is what it was."""

    model: WholeModel
    base: LazyTensor
    factors: tuple[LazyTensor, ...]
    dtype: DType
    name: str
    tally: Tally

    @property
    def spec(self) -> TensorSpec:
        """The shape of the base, the dtype that is written."""
        return TensorSpec(self.dtype, self.base.spec.shape)

    @property
    def extent(self) -> Shape:
        """That of the base."""
        return self.base.extent

    @property
    def grain(self) -> int:
        """That of the base."""
        return self.base.grain

    @property
    def scratch(self) -> int:
        """The whole model, in float32 unless the merge is at the stored dtypes; the workers share it."""
        return self.model.nbytes if self.model.native else 2 * self.model.nbytes

    def rounded_to(self, dtype: DType) -> OfModel:
        """The same tensor rounded to another dtype, once."""
        return replace(self, dtype=dtype)

    def fill(self, out: RawArray, box: Box) -> None:
        """Take it from the merged model, and round."""
        whole = self.model.tensor(self.name)
        if whole.spec.shape != self.base.spec.shape:
            what = f"{self.name} of the merged model is {whole.spec}, of the base {self.base.spec}"
            raise UserError(_problem(self.model.root, what))
        Merged(whole, (), self.dtype, self.name, self.tally).fill(out, box)
        if np.isfinite(out.view(FLOATS[self.dtype.code])).all():
            return
        raw = np.empty(out.shape, whole.spec.dtype.raw)
        whole.fill(raw, box)
        lost = lost_values(self.base, raw.view(FLOATS[whole.spec.dtype.code]), box)
        self.tally.add(self.name, Loss(lost, 0, 0))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """What base and adapter have for it."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """What base and adapter have for it."""
        yield Input(self.base, box)
        for tensor in self.factors:
            yield Input(tensor, tuple((0, size) for size in tensor.extent))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Nowhere: every value is computed."""
        return iter(())


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """Warnings of the libraries are kept quiet, their errors told to the user."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (OSError, ValueError, RuntimeError, TypeError, KeyError, AttributeError) as error:
        raise UserError(_problem(root, _first_line(error))) from error


def _merge(root: Path, adapters: tuple[Path, ...], folder: Path, *, native: bool) -> None:
    import torch

    model, names = _loaded(root, adapters, "auto" if native else torch.float32)
    model.merge_and_unload(adapter_names=names).save_pretrained(folder)


def _unmerged(root: Path, adapters: tuple[Path, ...]) -> Any:
    import torch

    model, names = _loaded(root, adapters, torch.float64)
    model.base_model.set_adapter(names)
    return model.double().eval()


def _loaded(root: Path, adapters: tuple[Path, ...], dtype: Any) -> tuple[Any, list[str]]:
    """The base with all its adapters beside it, and what these are called."""
    import transformers
    from peft import PeftModel

    transformers.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(root)
    kind = getattr(transformers, (config.architectures or [""])[0], None)
    if kind is None:
        raise ValueError("config.json names no class that the installed transformers has")
    base = kind.from_pretrained(root, dtype=dtype)
    names = [f"adapter_{number}" for number in range(len(adapters))]
    model: Any = PeftModel.from_pretrained(base, adapters[0], adapter_name=names[0])
    for name, path in zip(names[1:], adapters[1:], strict=True):
        model.load_adapter(path, adapter_name=name)
    return model, names


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _problem(root: Path, how: str) -> Problem:
    return source_problem(
        f"the whole model cannot be merged: {how}",
        why="transformers cannot load it as the class that config.json names, or PEFT has no merge for it",
        do="use lora.engine: module, which needs neither",
        subject=str(root),
        check="lora",
    )
