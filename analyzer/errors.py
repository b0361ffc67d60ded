"""What can go wrong in the analyzer.

AnalyzerError
├── ConfigError     the settings, prices or teams are wrong; exit 2
│   └── ProfileError    a file is no capacity profile, or none that can be read
├── StaleError      somebody has changed it since it was read
└── LedgerError     the ledger cannot be made or read; exit 3
    ├── EmptyLedgerError    it has no hour yet
    └── UnansweredError     who was asked for it does not answer, or refuses; carries the HTTP status
"""


class AnalyzerError(Exception):
    """Any failure of the analyzer; the message names the thing and the way out."""


class ConfigError(AnalyzerError):
    """The settings, the price file or the teams file is wrong."""


class ProfileError(ConfigError):
    """A file is no capacity profile, or was changed until none can be read in it."""


class StaleError(AnalyzerError):
    """What was to be changed has been changed by somebody else since it was read."""


class LedgerError(AnalyzerError):
    """The ledger cannot be made or read."""


class EmptyLedgerError(LedgerError):
    """The ledger has no hour yet: nothing was ingested, or no pass has booked it."""

    def __init__(self) -> None:
        super().__init__(
            "the ledger is empty: ingest telemetry (agents, gpuledger import), then run gpuledger admin analyze"
        )


class UnansweredError(LedgerError):
    """Who was asked for a reading of the ledger does not answer, or refuses.

    `status` is HTTP's, None without one; `said` the sentence of the refusal itself, and `reason` a word for programs,
    where the answer has one.
    """

    def __init__(self, message: str, status: int | None = None, said: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        self.reason = reason
