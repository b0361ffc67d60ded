"""What the doctor sees from where it stands, the lines that it says of it, and their words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, SECOND_US
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.errors import RegistryError
from collector.registry import AccessKey, Send, open_registry
from collector.registry.registry import registry_file
from collector.store.database import Store
from collector.store.session import Session

_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def size(count: float) -> str:
    """Return bytes in the largest unit that leaves a digit before the point."""
    for scale, unit in _SIZES:
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count < 100 * scale else f"{count / scale:,.0f} {unit}"
    return f"{count:.0f} bytes"


def length_words(seconds: float) -> str:
    """Return a length of time in one unit."""
    for scale, unit in ((2 * DAY_SECONDS, "d"), (2 * HOUR_SECONDS, "h"), (2 * MINUTE_SECONDS, "min")):
        if seconds >= scale:
            return f"{seconds / (scale / 2):.0f} {unit}"
    return f"{seconds:.0f} s"


def minute_words(microseconds: int) -> str:
    """Return a time to the minute, UTC."""
    return datetime.fromtimestamp(microseconds / SECOND_US, UTC).strftime("%Y-%m-%d %H:%M")


def some(names: list[str], shown: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# bad: somebody must mend it, and the exit code is 1; note: worth knowing; unseen: it could not be looked at from here.
CheckAnswer = Literal["ok", "note", "bad", "unseen"]


@dataclass(frozen=True, slots=True)
class CheckLine:
    """What was looked at, and how it is."""

    answer: CheckAnswer
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of one subject."""

    name: str
    lines: tuple[CheckLine, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """What a running server says of itself since it began."""

    analysis_error: str | None = None
    seal_error: str | None = None
    ignored: dict[str, int] = field(default_factory=dict)  # what newer agents send beyond us: columns, tables
    held: str | None = None  # of several analyzers: the sentence that says which other books into the lake
    books_since: int | None = None  # and since when this one does, microseconds UTC
    certificate: str | None = None  # that handshakes show, as PEM
    clock_doubt: str | None = None  # the sentence that says why its host's clock is not believed


@dataclass(frozen=True, slots=True)
class MailSight:
    """What is known of the weekly e-mail. `sends` is None where the registry was not reached.

    `greet` calls on the SMTP server and raises a MailError; None where it should not be tried from here.
    """

    settings: MailSettings
    sends: tuple[Send, ...] | None = None
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
    keys: tuple[AccessKey, ...] | None = None
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


def read_beside(
    config: CollectorConfig,
) -> tuple[tuple[AccessKey, ...] | None, tuple[Send, ...] | None, str | None]:
    """Return keys and mails of the registry beside a store, None where not known, and why it cannot be read."""
    file = registry_file(config.store)
    if file is None or not file.exists():
        return None, None, None
    try:
        with open_registry(file) as registry:
            return tuple(registry.keys.listed()), tuple(registry.mails.sends()), None
    except RegistryError as error:
        return None, None, str(error)
