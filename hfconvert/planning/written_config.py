"""The `config.json` of a result whose source has none: what the families of the key map know of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hfconvert.findings import Finding, info
from hfconvert.planning.shards import TextFile
from hfconvert.readers.config import CONFIG
from hfconvert.tensors.checkpoint import Checkpoint


def written_config(
    config: Mapping[str, Any], stored: Checkpoint
) -> tuple[tuple[TextFile, ...], tuple[Finding, ...]]:
    """The file, with the dtype that most bytes have, and a finding; nothing where nothing is known."""
    if not config:
        return (), ()
    nbytes: Counter[str] = Counter()
    for entry in stored.values():
        spec = entry.tensor.spec
        if spec.dtype.kind == "float":
            nbytes[spec.dtype.torch] += spec.nbytes
    dtype = {"dtype": nbytes.most_common(1)[0][0]} if nbytes else {}
    content = json.dumps({**config, **dtype}, indent=2, ensure_ascii=False) + "\n"
    said = info(
        "files",
        CONFIG,
        "written from the values that the family knows: the source has none",
        "compare it with the configuration that the model was trained with",
    )
    return (TextFile(CONFIG, content.encode()),), (said,)
