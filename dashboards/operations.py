"""GET /v1/doctor: a server examines the store that it has open; `gpuledger doctor --server URL` asks here."""

import time
from typing import TYPE_CHECKING, Any

from analyzer.api.asking import refusals
from analyzer.doctor.examination import examination
from analyzer.doctor.page import document
from analyzer.doctor.sight import Live, Sight
from collector.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from analyzer.config import Settings
    from collector.access.access import Access
    from collector.config import CollectorConfig
    from collector.registry import Key
    from collector.store.database import Store


def add_doctor(
    app: "FastAPI", config: "CollectorConfig", settings: "Settings", store: "Store", live: "Callable[[], Live]"
) -> None:
    """Add the route; `live` is asked at each examination."""

    @app.get("/v1/doctor", responses=refusals(401, 403, 429, 500, 503))
    def doctor() -> dict[str, Any]:
        """Examine the store: the ledger's invariants, the files, the agents, the disk, keys and jobs."""
        with store.session() as session:
            keys = _keys(app.state.access)
            sight = Sight(store, session, settings, config, time.time_ns() // 1000, keys, live())
            return document(examination(sight))


def _keys(access: "Access") -> "tuple[Key, ...] | None":
    try:
        return tuple(access.registry.keys.listed())
    except RegistryError:
        return None
