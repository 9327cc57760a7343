"""What the tests of `verify` share: the configuration of their model, and a verification that was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

State = dict[str, torch.Tensor]
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "tie_word_embeddings": True,
    "dtype": "float32",
}


@dataclass(frozen=True)
class Verified:
    """Exit code and report of a verification."""

    code: int
    report: dict[str, Any]
    said: str

    def status(self, check: str) -> str:
        """The status of a check."""
        found = {one["name"]: one["status"] for one in self.report["checks"]}
        return str(found[check])

    def failed(self) -> set[str]:
        """Names of the checks that failed."""
        return {one["name"] for one in self.report["checks"] if one["status"] == "fail"}

    def errors(self) -> str:
        """Findings of level error, one a line."""
        return self._findings("error")

    def notes(self) -> str:
        """The other findings, one a line."""
        return self._findings("info") + "\n" + self._findings("warning")

    def _findings(self, level: str) -> str:
        return "\n".join(
            f"{one['subject']}: {one['message']}"
            for one in self.report["findings"]
            if one["level"] == level
        )


Verify = Callable[..., Verified]
Change = Callable[[Callable[[State], Mapping[str, torch.Tensor] | None]], None]
