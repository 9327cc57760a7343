"""A PyTorch file as the contents that every reader gives."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hfconvert.errors import UserError
from hfconvert.readers.contents import Contents, OtherTensor, PickleFacts
from hfconvert.readers.state_dict import facts, no_weights, read_sets
from hfconvert.readers.torch_file import read_torch
from hfconvert.readers.torch_found import TorchFile
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.source import ByteSource

# Where training code keeps an optimizer's state, and what torch's optimizers call its tensors.
_OPTIMIZER = re.compile(
    r"optim|fp32_flat|(?:^|\.)(?:exp_avg\w*|max_exp_avg\w*|momentum_buffer|square_avg|acc_delta|sum)$",
    re.IGNORECASE,
)


def read_torch_contents(source: ByteSource) -> Contents:
    """Sets of weights, other tensors, facts and imports of a PyTorch file. UserError (exit 3)."""
    file = read_torch(source)
    found = read_sets(file.tree, source.name)
    learned = facts(file.tree)
    lightning = learned.get("framework") == "lightning"
    return Contents(
        format="lightning" if lightning else "torch",
        container=file.container,
        sets=found.sets,
        default=found.default,
        refusal=None if found.sets else _refusal(file, found.others, source.name),
        others=tuple(_other(name, tensor) for name, tensor in found.others.items()),
        facts=learned,
        pickle=PickleFacts(file.imports, file.stubbed),
        findings=file.findings + found.findings,
        checksums=file.checksums,
        lazy=not file.packed,
    )


def _refusal(file: TorchFile, others: Mapping[str, LazyTensor], name: str) -> UserError:
    """Why a file without weights is refused: by the programs whose objects it holds, where it holds some."""
    strangers = [str(one) for one in file.imports if one.verdict == "unknown"]
    return no_weights(file.tree, name, others, strangers)


def _other(name: str, tensor: LazyTensor) -> OtherTensor:
    """A tensor beside the weights: of an optimizer, by its place, or of something else."""
    optimizer = name.startswith("state.") or bool(_OPTIMIZER.search(name))
    return OtherTensor(name, "optimizer" if optimizer else "other", tensor.spec)
