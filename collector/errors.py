"""What can go wrong in the collector.

CollectorError
├── ConfigError     the settings are wrong; exit 2
├── StoreError      the store cannot be opened, read or written; exit 3
│   └── TakenError  another analyzer has booked into the lake meanwhile; nothing was changed
├── HeldElsewhereError  another analyzer books into this lake; this one follows its books
├── RegistryError   the registry does not answer, or refuses; exit 3
│   └── FullError   it keeps no more of something; nothing was changed
├── BackupError     a backup cannot be made, is damaged, or cannot be restored there; exit 3
├── FileRefusedError    a file cannot be imported; exit 3
│   └── UndatedError    a log has no dates, and nobody said when it began
├── AccessError     a request is refused at the gate; carries the HTTP status and a reason
│   └── JoinError   a host is not enrolled
├── ListenError     the port cannot be had now; exit 3, so that a supervisor tries again
├── ServerError     a Prometheus that is asked does not answer, or says no; exit 3
│   └── TooMuchError     it answers, and not so much at once
├── SchedulerError  a scheduler did not answer, or not in words we know; counted, asked again
└── BatchError      a batch is refused; carries the HTTP status and a reason for the sender
"""


class CollectorError(Exception):
    """Any failure of the collector; the message names the thing and the way out."""


class ConfigError(CollectorError):
    """The settings are wrong."""


class ListenError(CollectorError):
    """The address cannot be listened on now; another process may hold it, and may let go of it."""


NO_MEMORY = (
    "Out of Memory"  # what a StoreError has in it, in DuckDB's words, where a statement needs more than there is
)


class StoreError(CollectorError):
    """The store cannot be opened, read or written. Whatever asks one may raise it, and says no more of that."""


class TakenError(StoreError):
    """Another analyzer has booked into the lake since this one went on from its books; nothing was changed."""


class HeldElsewhereError(CollectorError):
    """Another analyzer has the lease under which the lake is booked into; the message names it and the way out."""


class RegistryError(CollectorError):
    """The registry (leases, keys, audit) does not answer, or refuses: whatever asks it may raise this."""


class FullError(RegistryError):
    """The registry keeps no more of something; the message names the bound. Nothing was changed."""


class BackupError(CollectorError):
    """A backup cannot be made, is damaged, or cannot be restored where it was asked for."""


class FileRefusedError(CollectorError):
    """A file cannot be imported."""


class UndatedError(FileRefusedError):
    """A log has no dates, and nobody said when it began; `length` is its length in microseconds."""

    def __init__(self, message: str, length: int) -> None:
        super().__init__(message)
        self.length = length


class AccessError(CollectorError):
    """A request is refused at the gate. `status` is that of the answer, `reason` a word for programs, `who` a key."""

    def __init__(self, status: int, reason: str, message: str, who: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.who = who


class JoinError(AccessError):
    """A host is not enrolled."""


class ServerError(CollectorError):
    """A Prometheus that was asked did not answer, or said no."""


class TooMuchError(ServerError):
    """A Prometheus that was asked answers, and not so much at once: less may be asked."""


class SchedulerError(CollectorError):
    """A scheduler did not answer, or not in words that are known."""


class BatchError(CollectorError):
    """A batch is refused. `status` is the HTTP status of the answer, `reason` a short word that is counted.

    `location` is where the batch belongs instead, `epoch` under which it will be taken, `retry_after` the seconds after
    which it may be sent again; where they are known.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        location: str | None = None,
        epoch: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.location = location
        self.epoch = epoch
        self.retry_after = retry_after
