"""What the API refuses, beside what the analyzer itself refuses.

AnalyzerError
├── ConfigError   a parameter cannot be read; 400
├── LedgerError   the ledger has no such thing; 404
│   ├── MeaninglessError  what was asked can be read, and is none that can be answered; 404, with the reason "usage"
│   └── GoneError     a cursor or a period that is well written and means nothing here; 404
├── PeopleError   names of people are for owners and admins; 403
├── WholeError    it is of the whole site, and who asks may see some teams alone; 403
└── BusyError     too many read at once; 503
"""

from analyzer.errors import AnalyzerError, LedgerError


class MeaninglessError(LedgerError):
    """What was asked can be read, and is none that can be answered: a command that asks ends as on a store, with 2."""


class GoneError(LedgerError):
    """There is no such page or period."""


class PeopleError(AnalyzerError):
    """Who asks may read money, and not who spent it."""


class WholeError(AnalyzerError):
    """What was asked is of the whole site, and who asks may see the runs of some teams alone."""


class BusyError(AnalyzerError):
    """As many read the ledger as may at once, and none of them was done in time."""
