"""What a week usually comes to: the median of the four before it, of the fleet or of one team."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from analyzer.ledger.coverage import known_hours
from analyzer.period import Calendar, Period
from analyzer.queries.statements import statements
from analyzer.states import words_of
from analyzer.text.words import kind_of
from collector.store.session import Session

_WEEKS = 4
_AVOIDABLE = words_of("avoidable")


@dataclass(frozen=True, slots=True)
class Came:
    """What a week came to, all of it and what was avoidable: GPU milliseconds, and millionths if all has a price."""

    milliseconds: int = 0
    micros: int = 0
    is_priced: bool = True
    avoidable_milliseconds: int = 0
    avoidable_micros: int = 0

    def __add__(self, other: "Came") -> "Came":
        return Came(
            self.milliseconds + other.milliseconds,
            self.micros + other.micros,
            self.is_priced and other.is_priced,
            self.avoidable_milliseconds + other.avoidable_milliseconds,
            self.avoidable_micros + other.avoidable_micros,
        )


@dataclass(frozen=True, slots=True)
class Usual:
    """The four weeks before one, by week and holder (team, and whether a run held it); none where one is not whole."""

    weeks: tuple[Mapping[tuple[str | None, bool], Came], ...] = ()

    @classmethod
    def read(cls, session: Session, calendar: Calendar, period: Period) -> "Usual":
        """Read the weeks before `period`; a period that is no week has none."""
        if kind_of(period) != "week":
            return cls()
        spans, span = [], period
        for _ in range(_WEEKS):
            span = calendar.before(span)
            spans.append(span)
        if not all(known_hours(session, each).complete for each in spans):
            return cls()
        (query,) = statements("interfaces/mail/weeks.sql")
        asked = {
            "starts": sorted(each.start for each in spans), "start": spans[-1].start, "end": period.start,
            "avoidable": _AVOIDABLE,
        }  # fmt: skip
        found: dict[int, dict[tuple[str | None, bool], Came]] = {each.start: {} for each in spans}
        for week, team, held, time, cost, is_priced, *lost in session.rows(query, asked):
            found[week][team, held] = Came(time, cost, is_priced, *lost)
        return cls(tuple(found.values()))

    def of(self, team: str | None) -> Came | None:
        """Return the median week of a team, or of the fleet (None); each of its figures is a median by itself."""
        if not self.weeks:
            return None
        came = [
            week.get((team, True), Came()) if team is not None else sum(week.values(), Came()) for week in self.weeks
        ]
        middle = {
            name: round(median(getattr(one, name) for one in came))
            for name in ("milliseconds", "micros", "avoidable_milliseconds", "avoidable_micros")
        }
        return replace(Came(**middle), is_priced=all(one.is_priced for one in came))
