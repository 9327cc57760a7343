"""Git LFS: the batch API with the transfers basic and multipart (git-lfs, docs/api/batch.md)."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from tests.hub.loopback.access import open_repo
from tests.hub.loopback.blobs import FileBlob, MemoryBlob
from tests.hub.loopback.messages import Answer, RefusedError, Request
from tests.hub.loopback.routes.table import route
from tests.hub.loopback.state import Hub


def batch(hub: Hub, request: Request, repo: str) -> Answer:
    """Where each object is to be sent; none for those that are here."""
    found = open_repo(hub, request, repo, "discuss")
    asked = request.json()
    new = [item for item in asked["objects"] if item["oid"] not in hub.objects]
    hub.check_storage(found.namespace, sum(item["size"] for item in new))
    multipart = "multipart" in asked.get("transfers", ())
    objects = [_object(hub, found.id, item, multipart=multipart) for item in asked["objects"]]
    return Answer.of({"transfer": "multipart" if multipart else "basic", "objects": objects})


def upload(hub: Hub, request: Request, sha256: str) -> Answer:
    """Take in a whole object. Refused (400) where it is another one than it was said to be."""
    path, hashed = hub.folder / f"object-{sha256}", hashlib.sha256()
    with path.open("wb") as file:
        for block in request.stream:
            hashed.update(block)
            file.write(block)
    if hashed.hexdigest() != sha256:
        raise RefusedError(400, "BadDigest")
    hub.objects[sha256] = FileBlob(path)
    return Answer(200, {"ETag": f'"{sha256[:32]}"'})


def upload_part(hub: Hub, request: Request, sha256: str, number: str) -> Answer:
    """Take in a part of an object."""
    data = request.body()
    hub.parts[sha256, int(number)] = data
    return Answer(200, {"ETag": _etag(data)})


def complete(hub: Hub, request: Request, sha256: str) -> Answer:
    """Put the parts of an object together, by their numbers and etags. Needs no token: it is signed."""
    told = {part["partNumber"]: part["etag"] for part in request.json()["parts"]}
    parts = {number: hub.parts[oid, number] for oid, number in hub.parts if oid == sha256}
    if told != {number: _etag(data) for number, data in parts.items()}:
        raise RefusedError(400, "InvalidPart")
    blob = MemoryBlob(b"".join(parts[number] for number in sorted(parts)))
    if blob.sha256 != sha256:
        raise RefusedError(400, "BadDigest")
    hub.store(blob)
    for number in parts:
        del hub.parts[sha256, number]
    return Answer.of({})


def verify(hub: Hub, request: Request, repo: str) -> Answer:
    """Whether an object arrived whole."""
    open_repo(hub, request, repo, "discuss")
    asked = request.json()
    found = hub.objects.get(asked["oid"])
    if found is None or found.size != asked["size"]:
        raise RefusedError(404, "the object did not arrive")
    return Answer.of({})


def _object(hub: Hub, repo: str, item: dict[str, Any], *, multipart: bool) -> dict[str, Any]:
    oid, size = item["oid"], item["size"]
    if oid in hub.objects:
        return {"oid": oid, "size": size}
    place, header = f"{hub.cdn}/upload/{oid}", {}
    if multipart and size > hub.part_size:
        count = math.ceil(size / hub.part_size)
        header = {str(number): f"{place}/{number}" for number in range(1, count + 1)}
        header["chunk_size"] = str(hub.part_size)
        place = f"{hub.endpoint}/api/complete_multipart/{oid}"
    check = {"href": f"{hub.endpoint}/{repo}.git/info/lfs/objects/verify", "header": {}}
    actions = {"upload": {"href": place, "header": header}, "verify": check}
    return {"oid": oid, "size": size, "authenticated": True, "actions": actions}


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


ROUTES = (
    route("POST", "/{repo}.git/info/lfs/objects/batch", batch),
    route("POST", "/{repo}.git/info/lfs/objects/verify", verify),
    route("POST", "/api/complete_multipart/{sha256}", complete),
)
CDN_ROUTES = (
    route("PUT", "/upload/{sha256}", upload),
    route("PUT", "/upload/{sha256}/{number}", upload_part),
)
