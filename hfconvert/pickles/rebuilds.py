"""The one table of names that are rebuilt as inert data; every other name becomes a Stub."""

from __future__ import annotations

from collections.abc import Mapping

from hfconvert.pickles import rebuild_numpy, rebuild_python, rebuild_torch
from hfconvert.pickles.state import Rebuild
from hfconvert.pickles.values import Global

REBUILDS: Mapping[Global, Rebuild] = {
    **rebuild_python.REBUILDS,
    **rebuild_numpy.REBUILDS,
    **rebuild_torch.REBUILDS,
}
