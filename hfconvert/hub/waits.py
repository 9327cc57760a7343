"""How long the Hub wants to be left alone, and how long is waited before a repetition."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

REPETITIONS = 5
LONGEST_WAIT = 330.0  # seconds: a window of the Hub's rate limits is 300
_FIRST_WAIT, _LONGEST_BACKOFF = 1.0, 16.0
# `RateLimit: "api";r=0;t=55`: nothing remains for 55 seconds (IETF draft of the rate limit headers).
_REMAINING = re.compile(r";\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)")


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refusal asks for: by `RateLimit` when nothing remains, else by `Retry-After`."""
    limit = _REMAINING.search(headers.get("ratelimit", ""))
    if limit and limit[1] == "0":
        return float(limit[2])
    after = headers.get("retry-after", "").strip()
    return float(after) if after.isascii() and after.isdigit() else None


def backoff(attempt: int, asked: float | None) -> float:
    """Seconds to wait before repetition `attempt` (from 0): what was asked for, else 1, 2, 4, ... to 16.

    A little more than that, by chance, so that many clients do not come back at once.
    """
    seconds = asked if asked is not None else min(_FIRST_WAIT * 2**attempt, _LONGEST_BACKOFF)
    return seconds + random.uniform(0, 1)  # noqa: S311  # jitter is no secret
