"""GET /v1/doctor: a server examines the store that it has open; `gpuledger admin doctor --server URL` asks here."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from analyzer.interfaces.api.parameters import refusals
from analyzer.interfaces.doctor.examination import Examination, examination, looked_at
from analyzer.interfaces.doctor.line import Section
from analyzer.interfaces.doctor.page import document
from analyzer.interfaces.doctor.sight import Live, MailSight, Sight
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.believed import believing
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.errors import RegistryError
from collector.registry import AccessKey, Send
from collector.store.database import Store
from collector.store.session import Session

if TYPE_CHECKING:
    from fastapi import FastAPI

    from collector.access.access import Access


class Doctor:
    """Examines one server's store; `live` is asked at each examination."""

    def __init__(
        self,
        access: "Access",
        config: CollectorConfig,
        settings: Settings,
        store: Store,
        live: Callable[[], Live],
        mail: MailSettings,
        *,
        is_simulated: bool = False,
    ) -> None:
        self._access = access
        self._config = config
        self._settings = settings
        self._store = store
        self._live = live
        self._mail = mail
        self._is_simulated = is_simulated
        self.last: Examination | None = None  # with the ledger: that is read whole, and not for every reader of a page

    def examined(self) -> Examination:
        """Look at everything once: the ledger's invariants, the files, the agents, the disk, keys and jobs.

        Raises:
            StoreError: the ledger cannot be read at all.
        """
        with believing(self._store) as session:
            self.last = examination(self._sight(session))
            return self.last

    def looked_at(self) -> tuple[Section, ...]:
        """Return what can be said at once, of everything but the ledger."""
        with believing(self._store) as session:
            return looked_at(self._sight(session))

    def _sight(self, session: Session) -> Sight:
        keys, sends = _registered(self._access)
        now, mail = time.time_ns() // 1000, MailSight(self._mail, sends)
        store, settings, config = self._store, self._settings, self._config
        return Sight(store, session, settings, config, now, keys, self._live(), mail, self._is_simulated)


def add_doctor(app: "FastAPI", examiner: Doctor) -> None:
    """Add the route. Readers may ask, so nobody is called on for them."""

    @app.get("/v1/doctor", responses=refusals(401, 403, 429, 500, 503))
    def doctor() -> dict[str, Any]:
        """Examine the store: the ledger's invariants, the files, the agents, the disk, keys and jobs."""
        return document(examiner.examined())


def _registered(access: "Access") -> tuple[tuple[AccessKey, ...] | None, tuple[Send, ...] | None]:
    try:
        return tuple(access.registry.keys.listed()), tuple(access.registry.mails.sends())
    except RegistryError:
        return None, None
