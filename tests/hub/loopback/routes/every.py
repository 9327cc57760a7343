"""All the routes, of the Hub and of the storage behind it."""

from __future__ import annotations

from tests.hub.loopback.routes import (
    commits,
    discussions,
    files,
    identity,
    lfs,
    models,
    preupload,
    repos,
    tree,
    xet,
)
from tests.hub.loopback.routes.table import Route

HUB: tuple[Route, ...] = (
    *identity.ROUTES,
    *repos.ROUTES,
    *tree.ROUTES,
    *commits.ROUTES,
    *discussions.ROUTES,
    *preupload.ROUTES,
    *xet.ROUTES,
    *lfs.ROUTES,
    *files.ROUTES,
    *models.ROUTES,
)
CDN: tuple[Route, ...] = (*files.CDN_ROUTES, *lfs.CDN_ROUTES)
