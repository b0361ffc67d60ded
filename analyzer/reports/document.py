"""What every JSON answer is made of: documents with a version, spans and amounts, and how they are shown."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from analyzer.ledger.coverage import Hours, Measured
from analyzer.period import Period
from analyzer.period import iso as iso
from analyzer.text.display import Display, DisplayRounding
from analyzer.text.json_fields import CostMicros as CostMicros
from analyzer.text.json_fields import Iso as Iso
from analyzer.text.json_fields import Micros as Micros
from analyzer.text.json_fields import Milliseconds as Milliseconds

VERSION: Literal[1] = 1

Class = Literal["useful", "avoidable", "overhead", "spare", "unknown"]
Status = Literal["provisional", "open", "closed", "final"]


def iso_or_none(micros: int | None) -> str | None:
    """Return an instant that may be unknown."""
    return None if micros is None else iso(micros)


class Model(BaseModel):
    """A part of an answer. `_`-ended names are words that Python keeps for itself."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class Span(Model):
    """A span of whole hours, half-open: `end` is the first instant that does not belong to it."""

    label: str
    timezone: str
    start: Micros
    start_iso: Iso
    end: Micros
    end_iso: Iso

    @classmethod
    def of(cls, period: Period) -> "Span":
        """Return a period as the API writes it."""
        return cls(
            label=period.label,
            timezone=period.timezone,
            start=period.start,
            start_iso=iso(period.start),
            end=period.end,
            end_iso=iso(period.end),
        )


class Coverage(Model):
    """How much of the period the ledger knows, and how settled the least settled of its hours is."""

    known: int = Field(description="Hours of the period that are in the ledger.")
    expected: int = Field(description="Hours that the period has.")
    status: Status | None
    rules_versions: list[str]
    price_versions: list[str]

    @classmethod
    def of(cls, hours: Hours) -> "Coverage":
        """Return the hours of a period as the API writes them."""
        return cls(
            known=hours.known,
            expected=hours.expected,
            status=hours.status,  # type: ignore[arg-type]  # the ledger's own words
            rules_versions=list(hours.rules_versions),
            price_versions=list(hours.price_versions),
        )


class MeasuredTime(Model):
    """GPU time that runs held, and how much of it nobody measured: of that nothing was found, and nothing ruled out."""

    held_milliseconds: int
    not_measured_milliseconds: int

    @classmethod
    def of(cls, measured: Measured) -> "MeasuredTime":
        """Return what was measured of a period as the API writes it."""
        return cls(held_milliseconds=measured.held, not_measured_milliseconds=measured.silent)


class Amounts(Model):
    """GPU time and what it cost. `cost_micros` is of the part that has a price, null where no part has one."""

    milliseconds: Milliseconds
    cost_micros: CostMicros | None
    unpriced_milliseconds: Milliseconds = Field(description="The part of the time for which no price is known.")
    display: Display


class Document(Model):
    """One answer. `generation` changes whenever the ledger does: pages of one listing should have the same."""

    version: Literal[1] = Field(description="Raised when a field goes or changes its meaning; new ones do not.")
    generation: str
    currency: str
    timezone: str = Field(description="The site's: its days and weeks go by it, and people there read times in it.")


class Listing(Document):
    """One page of a listing."""

    next_cursor: str | None = Field(description="Give it back as `cursor` for the next page; null on the last.")


Triple = tuple[int, int | None, int]  # milliseconds, cost in micros, milliseconds without a price


class Rounding(DisplayRounding):
    """How one document's amounts are rounded: to the decimals that its total is shown with."""

    def __init__(self, total: Triple, currency: str) -> None:
        super().__init__(total[0], total[1], currency)
        self.total = total

    def whole(self) -> Amounts:
        """Return the total."""
        return self.amounts(self.total, self.hours[0], None if self.total[1] is None else self.costs[0])

    def amounts(self, exact: Triple, hours: int, cost: int | None) -> Amounts:
        """Return an amount whose rounded figures are known."""
        milliseconds, micros, unpriced = exact
        return Amounts(
            milliseconds=milliseconds,
            cost_micros=micros,
            unpriced_milliseconds=unpriced,
            display=self.display(hours, cost),
        )

    def parts(self, exact: Sequence[Triple], hours: int, cost: int | None) -> list[Amounts]:
        """Return the parts of an amount whose rounded figures are known; as shown, they sum to it."""
        rounded = self.apportioned([part[:2] for part in exact], hours, cost)
        return [self.amounts(part, *figures) for part, figures in zip(exact, rounded, strict=True)]
