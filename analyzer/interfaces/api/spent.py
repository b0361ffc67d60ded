"""Where GPU time went: by class, state and cause, in the order of every report."""

from pydantic import Field

from analyzer.interfaces.api.grouping import grouped
from analyzer.interfaces.api.selection import Selection
from analyzer.reports.document import Amounts, Class
from analyzer.states import BOOKINGS, CLASSES, booking
from collector.store.session import Session

_ORDER = {(each.state, each.cause): place for place, each in enumerate(BOOKINGS)}


class Entry(Amounts):
    """GPU time of one state and cause."""

    klass: Class = Field(serialization_alias="class")
    state: str
    cause: str | None
    label: str
    cause_label: str


def entries(session: Session, chosen: Selection, currency: str) -> tuple[Amounts, list[Entry]]:
    """Return the total of a selection and its parts, the classes in order, within them the largest first."""
    found = grouped(session, chosen, ("state", "cause"), currency, len(BOOKINGS), None)
    ranked = sorted(found.groups, key=lambda group: (_rank(*group.key), -group.amounts.milliseconds, _ORDER[group.key]))
    return found.rounding.whole(), [_entry(group.key[0], group.key[1], group.amounts) for group in ranked]


def _rank(state: str, cause: str | None) -> int:
    return CLASSES.index(booking(state, cause).klass)


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
