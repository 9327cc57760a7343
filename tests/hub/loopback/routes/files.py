"""The files themselves: regular ones from here, large ones by a redirect to the other origin."""

from __future__ import annotations

from tests.hub.loopback.access import check_gate, open_repo
from tests.hub.loopback.blobs import MemoryBlob, pointer
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.ranges import serve
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.routes.xet import read_token_url
from tests.hub.loopback.state import Hub

OPEN = ("README.md", ".gitattributes")  # readable in a gated repository, too


def resolve(hub: Hub, request: Request, repo: str, revision: str, path: str) -> Answer:
    """A file at a revision, with the headers by which the client knows it."""
    found = open_repo(hub, request, repo)
    if path not in OPEN:
        check_gate(hub, request, found)
    commit = found.resolve(revision)
    headers = {"X-Repo-Commit": commit.id}
    file = commit.files.get(path)
    if file is None:
        raise RefusedError(404, "Entry not found", "EntryNotFound", headers)
    if not file.lfs:
        return serve(request, file.blob, {**headers, "ETag": f'"{file.oid}"'})
    headers["X-Linked-Etag"] = f'"{file.etag}"'
    headers["X-Linked-Size"] = str(file.blob.size)
    headers["Location"] = f"{hub.cdn}/objects/{file.blob.sha256}?signature=loopback"
    if file.xet:
        headers["X-Xet-Hash"] = file.xet
        headers["Link"] = f'<{read_token_url(hub, found.id, commit.id)}>; rel="xet-auth"'
    return Answer(302, headers)


def raw(hub: Hub, request: Request, repo: str, revision: str, path: str) -> Answer:
    """What git itself stores of a file: of a large one, the pointer."""
    found = open_repo(hub, request, repo)
    check_gate(hub, request, found)
    file = found.resolve(revision).files.get(path)
    if file is None:
        raise RefusedError(404, "Entry not found", "EntryNotFound")
    blob = MemoryBlob(pointer(file.blob)) if file.lfs else file.blob
    return serve(request, blob, {"ETag": f'"{file.oid}"'})


def stored(hub: Hub, request: Request, sha256: str) -> Answer:
    """The bytes of an object, as storage gives them: it knows nothing of tokens and refuses them."""
    if "authorization" in request.headers:
        raise RefusedError(400, "Only one auth mechanism allowed")
    if sha256 not in hub.objects:
        raise RefusedError(404, "NoSuchKey")
    return serve(request, hub.objects[sha256], {"ETag": f'"{sha256[:32]}"'})


ROUTES = (
    route("GET|HEAD", "/{repo}/resolve/{revision}/{path}", resolve),
    route("GET|HEAD", "/{repo}/raw/{revision}/{path}", raw),
)
CDN_ROUTES = (route("GET|HEAD", "/objects/{sha256}", stored),)
