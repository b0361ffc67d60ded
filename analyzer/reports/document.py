"""What every JSON answer is made of: documents with a schema, spans and amounts, and how they are shown.

Times are integer microseconds UTC under the name that the column has everywhere, and ISO 8601 under `…_iso`. Money is
integer millionths of `currency`. null means unknown, and never 0. Dataclasses of the rooms below are parts of documents
as they are.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from analyzer.period import Period
from analyzer.period import iso as iso
from analyzer.queries.ledger_query import LedgerSum, known_sum
from analyzer.states import BOOKINGS, CLASSES, Class, booking
from analyzer.text.as_json import NAMES, period_data
from analyzer.text.as_json import CostMicros as CostMicros
from analyzer.text.as_json import Iso as Iso
from analyzer.text.as_json import Micros as Micros
from analyzer.text.as_json import Milliseconds as Milliseconds
from analyzer.text.display import Display, DisplayRounding

VERSION: Literal[1] = 1
_ORDER = {(each.state, each.cause): place for place, each in enumerate(BOOKINGS)}

Status = Literal["provisional", "open", "closed", "final"]


def iso_or_none(micros: int | None) -> str | None:
    """Return an instant that may be unknown."""
    return None if micros is None else iso(micros)


class Model(BaseModel):
    """A part of an answer. `_`-ended names are words that Python keeps for itself."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        alias_generator=lambda name: NAMES.get(name, name),
    )

    @model_validator(mode="before")
    @classmethod
    def _with_iso(cls, fields: Any) -> Any:  # noqa: ANN401 - whatever somebody validates
        """Write the instants that have a field `…_iso` beside them as ISO 8601 there."""
        twins = [name for name in cls.model_fields if name.endswith("_iso")]
        if not twins:
            return fields
        if not isinstance(fields, dict):
            fields = {name: getattr(fields, name) for name in cls.model_fields if hasattr(fields, name)}
        instants = {twin: fields.get(twin.removesuffix("_iso"), "") for twin in twins if twin not in fields}
        return fields | {twin: iso_or_none(instant) for twin, instant in instants.items() if instant != ""}


Span = Annotated[Period, PlainSerializer(period_data)]


class Amounts(Model):
    """GPU time and what it cost. `cost_micros` is of the part that has a price, null where no part has one."""

    milliseconds: Milliseconds
    cost_micros: CostMicros | None
    unpriced_milliseconds: Milliseconds = Field(description="The part of the time without a known price.")
    display: Display


class Entry(Amounts):
    """GPU time of one state and cause."""

    klass: Class
    state: str
    cause: str | None
    label: str
    cause_label: str


class Document(Model):
    """One answer. `generation` changes whenever the ledger does: pages of one listing should have the same."""

    schema_: str = Field(default="", alias="schema", description="What it is: gpuledger/run, gpuledger/run_list.")
    version: Literal[1] = Field(
        description="Raised when a field is removed or changes its meaning; new fields do not raise it."
    )
    generation: str | None = Field(description="null in the answer of a command, which reads one state of the ledger.")
    currency: str
    timezone: str = Field(description="The site's time zone: days and weeks follow it, and times are shown in it.")

    @model_validator(mode="before")
    @classmethod
    def _with_schema(cls, fields: Any) -> Any:  # noqa: ANN401 - whatever somebody validates
        if not isinstance(fields, dict) or "schema" in fields:
            return fields
        name = re.sub(
            r"(?<=[a-z])(?=[A-Z])",
            "_",
            cls.__name__.replace("Page", "List").removesuffix("Document").removesuffix("Answer"),
        )
        return {"schema": f"gpuledger/{name.lower()}", **fields}


class Listing(Document):
    """One page of a listing."""

    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page; null on the last.")


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


def entries(sums: Sequence[LedgerSum], currency: str) -> tuple[Amounts, tuple[Entry, ...]]:
    """Return the total of sums by state and cause, and its parts: the classes in order, within them the largest first.

    The sums come in the order of their keys: of two parts that are rounded alike it is the first that gains.
    """
    exact = [(one.milliseconds, one.cost_micros, one.unpriced_milliseconds) for one in sums]
    total = (sum(part[0] for part in exact), known_sum(part[1] for part in exact), sum(part[2] for part in exact))
    rounding = Rounding(total, currency)
    parts = rounding.parts(exact, rounding.hours[0], None if total[1] is None else rounding.costs[0])
    made = [_entry(one.keys[0], one.keys[1], amounts) for one, amounts in zip(sums, parts, strict=True)]
    ranked = sorted(made, key=lambda one: (CLASSES.index(one.klass), -one.milliseconds, _ORDER[one.state, one.cause]))
    return rounding.whole(), tuple(ranked)


def _entry(state: str, cause: str | None, amounts: Amounts) -> Entry:
    words = booking(state, cause)
    return Entry(
        **dict(amounts),
        klass=words.klass,
        state=state,
        cause=cause,
        label=words.label,
        cause_label=words.cause_label,
    )
