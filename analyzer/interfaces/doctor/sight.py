"""What the doctor sees from where it stands: a store, its settings, and of a running server what only that knows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.interfaces.mail.settings import MailSettings
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from collector.store.session import Session

if TYPE_CHECKING:
    from collector.registry import AccessKey, Send


@dataclass(frozen=True, slots=True)
class Live:
    """What a running server says of itself since it began."""

    analysis_error: str | None = None
    seal_error: str | None = None
    ignored: dict[str, int] = field(default_factory=dict)  # what newer agents send beyond us: columns, tables
    held: str | None = None  # of several analyzers: the sentence that says which other books into the lake
    books_since: int | None = None  # and since when this one does, microseconds UTC


@dataclass(frozen=True, slots=True)
class MailSight:
    """What is known of the weekly e-mail. `sends` is None where the registry was not reached.

    `greet` calls on the SMTP server and raises a MailError; None where it should not be tried from here.
    """

    settings: MailSettings
    sends: "tuple[Send, ...] | None" = None
    greet: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """One look. `keys` is None where the registry was not reached (`registry_error`: it is there, and
    cannot be read), `live` where no server was asked.

    `is_simulated`: a demo's week, whose agents have ended and told its time, not ours.
    """

    store: Store
    session: Session
    settings: Settings
    config: CollectorConfig
    now_us: int
    keys: "tuple[AccessKey, ...] | None" = None
    live: Live | None = None
    mail: MailSight | None = None
    is_simulated: bool = False
    registry_error: str | None = None

    @property
    def receipts(self) -> str:
        """The table of receipts that has the newest: the hot file's, else the lake's."""
        return f"{self.store.hot}.receipts" if self.store.hot is not None else "lake.main.receipts"

    @property
    def is_served(self) -> bool:
        """Whether a server has this store: we are in it, or the hot file is not to be had. Else nothing can come."""
        return self.live is not None or self.store.hot is None
