"""What the API refuses, beside what the analyzer itself refuses.

AnalyzerError
├── ConfigError   a parameter cannot be read; 400
├── LedgerError   the ledger has no such thing; 404
│   └── GoneError     a cursor or a period that is well written and means nothing here; 404
├── PeopleError   names of people are for owners and admins; 403
└── BusyError     too many read at once; 503
"""

from analyzer.errors import AnalyzerError, LedgerError


class GoneError(LedgerError):
    """There is no such page or period."""


class PeopleError(AnalyzerError):
    """Who asks may read money, and not who spent it."""


class BusyError(AnalyzerError):
    """As many read the ledger as may at once, and none of them was done in time."""
