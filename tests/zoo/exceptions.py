"""Types that do not come through, each with whose fault it is and why.

`transformers`: its class cannot load what it saved itself, which the run tries. `hfconvert`: ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Explained(NamedTuple):
    """Whose fault it is that a type does not come through, and what is wrong."""

    whose: Literal["transformers", "hfconvert"]
    reason: str


CONVERT: Mapping[str, Explained] = {}
MERGE: Mapping[str, Explained] = {}
EXPLAINED: Mapping[str, Mapping[str, Explained]] = {"convert": CONVERT, "merge": MERGE}
