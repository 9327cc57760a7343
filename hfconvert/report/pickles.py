"""What pickles ask for, as every JSON document holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hfconvert.readers.contents import PickleFacts


def pickle_documents(pickles: Iterable[tuple[str, PickleFacts]]) -> list[dict[str, Any]]:
    """What the pickle of each file asks for, and what that is judged to be."""
    return [
        {
            "file": file,
            "imports": [
                {"module": item.module, "name": item.name, "verdict": item.verdict}
                for item in facts.imports
            ],
            "stubbed": list(facts.stubbed),
            "dangerous": [{"module": item.module, "name": item.name} for item in facts.dangerous],
        }
        for file, facts in pickles
    ]
