"""A pickle as a stream over a source: small reads, long binary strings left in place."""

from __future__ import annotations

from hfconvert.tensors.source import ByteSource, read

CHUNK = 64 << 10
MAX_LINE = 1 << 20


class EndOfPickleError(Exception):
    """The bytes end within an opcode."""


class Stream:
    """Bytes `start` to `stop` of a source, read in chunks, never twice and never past `stop`."""

    __slots__ = ("_at", "_base", "_buffer", "source", "stop")

    def __init__(self, source: ByteSource, start: int, stop: int) -> None:
        self.source = source
        self.stop = stop
        self._base = start
        self._buffer = b""
        self._at = 0

    @property
    def position(self) -> int:
        """The offset in the source of the next byte."""
        return self._base + self._at

    @property
    def left(self) -> int:
        """How many bytes remain."""
        return self.stop - self.position

    def byte(self) -> int:
        """The next byte; EndOfPickleError at the end."""
        at = self._at
        try:
            value = self._buffer[at]
        except IndexError:
            self._refill(1)
            value, at = self._buffer[0], 0
        self._at = at + 1
        return value

    def take(self, count: int) -> bytes:
        """The next bytes; EndOfPickleError where fewer are left."""
        end = self._at + count
        if end > len(self._buffer):
            self._refill(count)
            end = count
        taken = self._buffer[self._at : end]
        self._at = end
        return taken

    def skip(self, count: int) -> int:
        """Pass over bytes without reading them; returns the offset of the first."""
        start = self.position
        if count > self.left:
            raise EndOfPickleError
        if self._at + count <= len(self._buffer):
            self._at += count
        else:
            self._base, self._buffer, self._at = start + count, b"", 0
        return start

    def line(self) -> bytes:
        """The bytes up to the next newline, which is passed over."""
        parts = []
        length = 0
        while True:
            end = self._buffer.find(b"\n", self._at)
            if end >= 0:
                parts.append(self._buffer[self._at : end])
                self._at = end + 1
                return b"".join(parts)
            parts.append(self._buffer[self._at :])
            length += len(parts[-1])
            self._at = len(self._buffer)
            if length > MAX_LINE:
                raise EndOfPickleError
            self._refill(1)

    def _refill(self, count: int) -> None:
        start = self.position
        if count > self.stop - start:
            raise EndOfPickleError
        kept = self._buffer[self._at :]
        begin = start + len(kept)
        end = min(self.stop, max(start + count, begin + CHUNK))
        self._buffer = kept + bytes(read(self.source, begin, end))
        self._base, self._at = start, 0
