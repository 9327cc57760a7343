"""Sockets: two servers on free ports of 127.0.0.1, one the Hub and one the storage that it redirects to."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, cast

from tests.hub.loopback.faults import Action, Call, Drop, IgnoreRange, LoseAnswer, Say, bend
from tests.hub.loopback.log import Record
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.routes import every
from tests.hub.loopback.routes.table import Route, dispatch
from tests.hub.loopback.state import Hub
from tests.hub.loopback.xet_store import XetStore


class RunningHub(Hub):
    """A Hub that answers, from when it is made until it is closed. The folder holds what is uploaded."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder=folder, xet_store=XetStore(folder / "xet-store"))
        self._servers = [_Server(self, "hub", every.HUB), _Server(self, "cdn", every.CDN)]
        self.endpoint, self.cdn = (server.url for server in self._servers)

    def close(self) -> None:
        """Answer no more; every connection ends."""
        for server in self._servers:
            server.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # a connection that does not fit is tried again after a second

    def __init__(self, hub: Hub, origin: str, table: Iterable[Route]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub, self.origin, self.table = hub, origin, tuple(table)
        self.port = int(self.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no failure of ours; anything else is."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.hub.crashes.append(error)

    def stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        with socket.create_connection(("127.0.0.1", self.port)):  # wakes the loop
            self._thread.join()
        self.server_close()
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _serve(self) -> None:
        while not self._stopped.is_set():
            self.handle_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def parse_request(self) -> bool:
        """Read a request; every method goes the same way."""
        good = super().parse_request()
        if good:
            setattr(self, f"do_{self.command}", self._answer)
        return good

    def finish(self) -> None:
        """End a connection, also one whose client was killed: both of its files are closed."""
        try:
            super().finish()
        finally:
            self.rfile.close()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # its name there
        """Nothing on stderr: requests are in the log of the Hub."""

    def version_string(self) -> str:
        return "loopback"

    @property
    def _server(self) -> _Server:
        return cast("_Server", self.server)

    def _answer(self) -> None:
        server = self._server
        hub = server.hub
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request.parse(
            server.origin, self.command, self.path, headers, cast("BinaryIO", self.rfile)
        )
        record = hub.log.open(request)
        action = hub.faults.next(request)
        if action == Drop():
            self.close_connection = True
            return
        answer = self._carried_out(request, action)
        request.drain()
        record.status = answer.status
        if isinstance(action, LoseAnswer):
            self.close_connection = True
            return
        promised = answer.stop - answer.start
        if not isinstance(action, Drop):
            promised = (answer := bend(answer, action)).stop - answer.start
        self._send_head(answer, promised)
        if self.command != "HEAD":
            self._send_body(answer, record, action)

    def _carried_out(self, request: Request, action: Action | None) -> Answer:
        hub = self._server.hub
        if isinstance(action, Call):
            action.function(request)
        if isinstance(action, IgnoreRange):
            request.headers = {k: v for k, v in request.headers.items() if k != "range"}
        if isinstance(action, Say):
            return action.answer()
        try:
            limits = hub.limits.spend(request.path) if request.origin == "hub" else {}
            answer = dispatch(hub, self._server.table, request)
        except RefusedError as refusal:
            return Answer.refusing(refusal)
        answer.headers.update(limits)
        return answer

    def _send_head(self, answer: Answer, length: int) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def _send_body(self, answer: Answer, record: Record, action: Action | None) -> None:
        left = action.after if isinstance(action, Drop) and action.after is not None else None
        for block in answer.blocks():
            part = block if left is None else block[:left]
            record.sent += len(part)
            self.wfile.write(part)
            if left is not None:
                left -= len(part)
                if not left:
                    break
        self.wfile.flush()
        self.close_connection = self.close_connection or left is not None
