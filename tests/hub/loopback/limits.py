"""Rate limits, as the Hub counts them: so many requests of a kind in a fixed window of time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.hub.loopback.messages import RefusedError


@dataclass(slots=True)
class Limit:
    """A quota of requests; time passes only when `wait` says so."""

    quota: int
    window: int = 300
    used: int = 0
    elapsed: float = 0

    def spend(self, kind: str) -> dict[str, str]:
        """Count a request; the headers that say what is left. Refused (429) when nothing is."""
        left = self.quota - self.used
        self.used = min(self.quota, self.used + 1)
        headers = {
            "RateLimit": f'"{kind}";r={max(0, left - 1)};t={int(self.window - self.elapsed)}',
            "RateLimit-Policy": f'"fixed window";"{kind}";q={self.quota};w={self.window}',
        }
        if left <= 0:
            raise RefusedError(429, "We had to rate limit you", "", headers)
        return headers

    def wait(self, seconds: float) -> None:
        """Let time pass; a new window begins with the whole quota."""
        self.elapsed += seconds
        if self.elapsed >= self.window:
            self.used, self.elapsed = 0, 0


@dataclass(slots=True)
class Limits:
    """Limits by kind: `api` for what begins with /api/, `resolvers` for files."""

    kinds: dict[str, Limit] = field(default_factory=dict)

    def spend(self, path: str) -> dict[str, str]:
        """Count a request under the kind of its path."""
        kind = "api" if path.startswith("/api/") else "resolvers"
        limit = self.kinds.get(kind)
        return limit.spend(kind) if limit else {}

    def wait(self, seconds: float) -> None:
        """Let time pass for all of them."""
        for limit in self.kinds.values():
            limit.wait(seconds)
