"""Byte ranges of one file over HTTP: from where the Hub redirects to, repeated where something breaks."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # public there

from hfconvert import __version__
from hfconvert.errors import UserError
from hfconvert.hub.about import hub_problem
from hfconvert.hub.client import raise_told, wait_before
from hfconvert.hub.failures import FAILURES, BrokenOffError
from hfconvert.hub.source import HubFile, Snapshot

Sink = Callable[[int, bytes], None]
_PART = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_EXPIRED = (401, 403, 404, 410)  # what storage says to an address that it signed long ago
_MOST_SKIPPED = 1 << 20  # bytes that are read in vain when a proxy takes the Range header away


@dataclass(slots=True)
class Wire:
    """A file of a snapshot, reachable by ranges. Safe to use from several threads."""

    snapshot: Snapshot
    record: HubFile
    _address: str | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self, start: int, stop: int, sink: Sink) -> None:
        """Give the bytes `start` to `stop` to the sink, in order, each with its offset.

        What broke off goes on where it ended. UserError (exit 4) where that does not help, or where the file
        is not the one that the Hub recorded.
        """
        attempt = 0
        while start < stop:
            before = start
            try:
                for block in self._blocks(start, stop):
                    sink(start, block)
                    start += len(block)
                if start == before:
                    raise BrokenOffError("the answer was empty")
            except FAILURES as error:
                attempt = 0 if start > before else attempt
                wait = wait_before(error, attempt)
                if wait is None:
                    raise_told(error, self.snapshot.about.at(self.record.path))
                attempt += 1
                time.sleep(wait)

    def _blocks(self, start: int, stop: int) -> Iterator[bytes]:
        with self._lock:
            address = self._address or self._locate()
        headers = {**self._headers(address), "Range": f"bytes={start}-{stop - 1}"}
        timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
        with get_session().stream("GET", address, headers=headers, timeout=timeout) as response:
            if response.status_code in _EXPIRED and not self._is_ours(address):
                self._forget(address)
                raise BrokenOffError("the address of the file has expired")
            hf_raise_for_status(response)
            skip = self._skip(response, start)
            left = stop - start
            for block in response.iter_raw():
                part = block[skip : skip + left]
                skip -= min(skip, len(block))
                left -= len(part)
                if part:
                    yield part
                if not left:
                    break

    def _skip(self, response: Any, start: int) -> int:
        """Bytes at the start of the body that are not wanted: none, unless the range was ignored."""
        part = _PART.match(response.headers.get("content-range", ""))
        if response.headers.get("content-encoding", "identity") != "identity":
            self._refuse("the answer is compressed, so its bytes are not those of the file")
        if response.status_code == 206 and part:
            if int(part[3]) != self.record.size or int(part[1]) != start:
                self._refuse(f"it has {part[3]} bytes, {self.record.size} by the Hub's record")
            return 0
        if start > _MOST_SKIPPED:
            self._refuse("parts of it cannot be read: the answer is the whole file")
        return start

    def _locate(self) -> str:
        snapshot, path = self.snapshot, self.record.path
        client = snapshot.client
        url = hf_hub_url(snapshot.repo, path, revision=snapshot.commit, endpoint=client.endpoint)
        found = client.ask(
            snapshot.about.at(path), lambda: client.api.get_hf_file_metadata(url=url)
        )
        if found.size not in (None, self.record.size):
            self._refuse(f"it has {found.size} bytes, {self.record.size} by the Hub's record")
        if found.etag not in (None, self.record.content.digest):
            self._refuse("its content is not what the Hub records")
        self._address = found.location
        return found.location

    def _forget(self, address: str) -> None:
        with self._lock:
            if self._address == address:
                self._address = None

    def _headers(self, address: str) -> dict[str, str]:
        """A token goes to the Hub alone, never to the storage that it redirects to."""
        token = self.snapshot.client.api.token if self._is_ours(address) else False
        headers = build_hf_headers(
            token=token, library_name="hfconvert", library_version=__version__
        )
        return {**headers, "Accept-Encoding": "identity"}

    def _is_ours(self, address: str) -> bool:
        return urlsplit(address)[:2] == urlsplit(self.snapshot.client.endpoint)[:2]

    def _refuse(self, what: str) -> NoReturn:
        about = self.snapshot.about.at(self.record.path)
        raise UserError(
            hub_problem(
                about,
                what,
                why="a proxy changes what passes through it, or the file was replaced",
                do="run again, over another network if it persists",
            )
        )
