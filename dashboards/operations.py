"""GET /v1/doctor: a server examines the store that it has open; `gpuledger doctor --server URL` asks here."""

import time
from typing import TYPE_CHECKING, Any

from analyzer.api.asking import refusals
from analyzer.doctor.examination import examination
from analyzer.doctor.page import document
from analyzer.doctor.sight import Live, MailSight, Sight
from collector.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from analyzer.config import Settings
    from analyzer.mail.settings import MailSettings
    from collector.access.access import Access
    from collector.config import CollectorConfig
    from collector.registry import Key, Send
    from collector.store.database import Store


def add_doctor(
    app: "FastAPI",
    config: "CollectorConfig",
    settings: "Settings",
    store: "Store",
    live: "Callable[[], Live]",
    mail: "MailSettings",
) -> None:
    """Add the route; `live` is asked at each examination. Readers may ask, so nobody is called on for them."""

    @app.get("/v1/doctor", responses=refusals(401, 403, 429, 500, 503))
    def doctor() -> dict[str, Any]:
        """Examine the store: the ledger's invariants, the files, the agents, the disk, keys and jobs."""
        with store.session() as session:
            keys, sends = _registered(app.state.access)
            now = time.time_ns() // 1000
            sight = Sight(store, session, settings, config, now, keys, live(), MailSight(mail, sends))
            return document(examination(sight))


def _registered(access: "Access") -> "tuple[tuple[Key, ...] | None, tuple[Send, ...] | None]":
    try:
        return tuple(access.registry.keys.listed()), tuple(access.registry.mails.sends())
    except RegistryError:
        return None, None
