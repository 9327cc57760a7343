"""An adapter as its files hold it, in one form whatever its naming: modules with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hfconvert.findings import Finding
from hfconvert.lora.naming import Naming
from hfconvert.lora.settings import Settings
from hfconvert.readers.contents import PickleFacts
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import SourceFile


@dataclass(frozen=True, slots=True)
class Part:
    """The adapter's share of one module: parameters by their names within it, such as `lora_A.weight`.

    `alpha` is what the file itself records for this module (kohya), None where it does not.
    """

    module: str
    tensors: Mapping[str, LazyTensor]
    names: Mapping[str, str]  # parameter -> name in the file
    component: str = ""
    alpha: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An adapter that was opened.

    `label` is what messages call it, `weight` its factor in the sum, `shared` what lies beside the modules.
    `components` has the configurations of the parts of a pipeline, where they have their own.
    """

    label: str
    root: Path
    naming: Naming
    settings: Settings
    parts: tuple[Part, ...]
    shared: Mapping[str, LazyTensor]
    files: tuple[SourceFile, ...]
    weight: float = 1.0
    components: Mapping[str, Settings] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    pickles: tuple[tuple[str, PickleFacts], ...] = ()
    findings: tuple[Finding, ...] = ()

    def of_component(self, component: str) -> Adapter:
        """The adapter with the configuration of one part of a pipeline."""
        return replace(self, settings=self.components.get(component, self.settings))
