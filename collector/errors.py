"""What can go wrong in the collector.

CollectorError
├── ConfigError     the settings are wrong; exit 2
├── StoreError      the store cannot be opened, read or written; exit 3
├── FileRefusedError    a file cannot be imported; exit 3
└── BatchError      a batch is refused; carries the HTTP status and a reason for the sender
"""


class CollectorError(Exception):
    """Any failure of the collector; the message names the thing and the way out."""


class ConfigError(CollectorError):
    """The settings are wrong."""


class StoreError(CollectorError):
    """The store cannot be opened, read or written."""


class FileRefusedError(CollectorError):
    """A file cannot be imported."""


class BatchError(CollectorError):
    """A batch is refused. `status` is the HTTP status of the answer, `reason` a short word that is counted."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
