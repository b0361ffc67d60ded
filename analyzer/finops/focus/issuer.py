"""Who a bill is from and to, and in which money: what the ledger does not know of itself."""

from dataclasses import dataclass

from analyzer.finops.focus.columns import Version


@dataclass(frozen=True, slots=True)
class Issuer:
    """The names on a bill. `timezone` decides where a month and a day begin."""

    version: Version
    provider: str
    account: str
    currency: str
    timezone: str
