"""A month against its budgets: what was spent each day, where it will end, and how sure that is.

The rows of teams, of what maps to no team, and of what nobody held sum to the fleet, spent and expected alike: what is
owned is known best, so what nobody will hold is what the fleet is expected to cost less what teams are.

The budgets file: what a team, a project or the whole fleet may cost in a month.

[[budget]]
team = "team-vision"              # or project = "..."; neither: the whole fleet
usd_per_month = 55_000            # the key names the currency
from = 2026-01-01                 # the first day of a month of the site's clock
until = 2027-01-01                # optional, exclusive
source = "plan of 2026"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal

from agent.wire.units import DAY_US, HOUR_US
from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.forecast import Forecast, days_missing, forecast
from analyzer.ledger.coverage import ledger_end
from analyzer.period import Calendar, Period, day_starts, local, midnight
from analyzer.queries.statements import booked
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import optional, read_rows, toml_file, toml_key
from collector.store.session import Session

FLEET = "the whole fleet"


def _month(entry: TomlEntry, key: str) -> date:
    day = entry.day(key)
    if day.day != 1:
        raise ConfigError(f"{entry.where}: {key!r} must be the first day of a month, not {day}")
    return day


@dataclass(frozen=True, slots=True)
class Budget:
    """What one team, one project or (both None) the fleet may cost a month, in millionths, from a month to another."""

    team: str | None
    project: str | None
    micros_per_month: int = field(metadata=toml_key("{money}_per_month", read=TomlEntry.micros))
    starts: date = field(metadata=toml_key("from", read=_month))
    ends: date | None = field(metadata=toml_key("until", read=optional(_month)))
    source: str

    def __post_init__(self) -> None:
        if self.team is not None and self.project is not None:
            raise ValueError("a budget is of a 'team' or of a 'project', not of both")
        if self.ends is not None and self.ends <= self.starts:
            raise ValueError("'until' must be later than 'from'")

    @property
    def whose(self) -> tuple[str | None, str | None]:
        """Whom it binds: team and project."""
        return self.team, self.project

    @property
    def name(self) -> str:
        """What people call it."""
        return self.team or (f"project {self.project}" if self.project else FLEET)

    def covers(self, month: date) -> bool:
        """Say whether it holds in the month that begins on this day."""
        return self.starts <= month and (self.ends is None or month < self.ends)


@dataclass(frozen=True, slots=True)
class BudgetBook:
    """All budgets, in the file's order and the ledger's currency."""

    budgets: tuple[Budget, ...] = ()

    @classmethod
    def read(cls, path: Path, currency: str) -> "BudgetBook":
        """Read a budgets file.

        Raises:
            ConfigError: it cannot be read, a key is unknown, an amount is negative, or two budgets bind one at once.
        """
        with toml_file(path, ("budget",)) as (file, mistakes):
            budgets = read_rows(file, "budget", Budget, mistakes, currency.lower())
            with mistakes.gathered():
                _refuse_overlaps(path.name, budgets)
        return cls(budgets)

    def of(self, month: date) -> tuple[Budget, ...]:
        """Return the budgets of the month that begins on this day."""
        return tuple(budget for budget in self.budgets if budget.covers(month))


def refuse_unbound(month: str, currency: str, budgets: Sequence[object | None]) -> None:
    """Refuse to check a month that no budget binds: what nobody wrote down would hold for ever.

    Raises:
        ConfigError: no budget holds in it; the sentence says how one is written.
    """
    if not any(budgets):
        raise ConfigError(
            f"no budget holds in {month}, so there is nothing to check: let `budgets` of [analyzer] name a file with "
            '[[budget]], its team = "...", '
            f'{currency.lower()}_per_month = 55_000, from = 2026-01-01 and source = "..." (docs/budgets.md)'
        )


def _refuse_overlaps(where: str, budgets: Sequence[Budget]) -> None:
    for number, one in enumerate(budgets):
        for other in budgets[:number]:
            if one.whose == other.whose and (one.covers(other.starts) or other.covers(one.starts)):
                raise ConfigError(f"{where}: two budgets of {one.name} for the same month; end one with 'until'")


def budget_book(settings: Settings) -> BudgetBook:
    """Read the budgets file of a site's settings, in the ledger's currency; without one, nobody has a budget.

    Raises:
        ConfigError: the file cannot be read.
    """
    return BudgetBook() if settings.budgets is None else BudgetBook.read(settings.budgets, settings.currency)


# By hour and run first: a fleet has a hundred rows of the ledger where that has one.
_BY_DAY = f"""
WITH by_hour AS (
    SELECT hour, run_id, coalesce(sum(cost_micros), 0)::BIGINT AS micros,
        coalesce(sum(milliseconds) FILTER (WHERE cost_micros IS NULL), 0)::BIGINT AS unpriced
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL
)
SELECT d.day, h.team, h.project, h.run_id IS NOT NULL, sum(h.micros)::BIGINT, sum(h.unpriced)::BIGINT
FROM {booked("by_hour")} h ASOF JOIN (SELECT unnest($days) AS day) d ON h.hour >= d.day
GROUP BY ALL
"""

Whose = tuple[str | None, str | None, bool]  # team, project, whether a run held the GPU


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the site's clock: their first instants, and whether the ledger has all hours of each."""

    starts: tuple[int, ...]
    whole: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost by day in millionths of whoever held GPUs; what has no price is not in it, and `unpriced` says how long."""

    days: Days
    by_day: Mapping[Whose, Sequence[int]]
    unpriced_milliseconds: Mapping[Whose, int]

    def of(self, wanted: "Sequence[Whose]") -> list[int]:
        """Return by day what these cost together."""
        rows = [self.by_day[whose] for whose in wanted]
        return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * len(self.days.starts)

    def history(self, wanted: "Sequence[Whose]", until: int) -> list[int | None]:
        """Return the days before the one that begins at `until`; None is a day of which hours are missing.

        A day of 23 or 25 hours counts as 24 of its hours: else the Sundays after it would be forecast to be like it.
        """
        ends = [*self.days.starts[1:], until]
        every = zip(self.days.starts, ends, self.days.whole, self.of(wanted), strict=True)
        return [
            cost * 24 * HOUR_US // (end - start) if is_whole else None
            for start, end, is_whole, cost in every
            if start < until
        ]


def spending(session: Session, timezone: str, since: int, until: int) -> Spending:
    """Return what was spent each day from the day of `since`, or of the ledger's first hour, to `until`."""
    (first,) = session.row("SELECT min(hour) FROM ledger_hours WHERE hour >= ? AND hour < ?", [since, until])
    if first is None:
        return Spending(Days((), ()), {}, {})
    starts = list(day_starts(first, until, timezone))
    known = session.rows(
        "SELECT d.day, count(*) FROM ledger_hours h ASOF JOIN (SELECT unnest($days) AS day) d ON h.hour >= d.day "
        "WHERE h.hour >= $start AND h.hour < $end GROUP BY ALL",
        {"days": starts, "start": since, "end": until},
    )
    rows = session.rows(_BY_DAY, {"days": starts, "start": since, "end": until})
    place = {start: number for number, start in enumerate(starts)}
    by_day: dict[Whose, list[int]] = {}
    unpriced: dict[Whose, int] = {}
    for day, team, project, held, cost, milliseconds in rows:
        whose = (team, project, held)
        by_day.setdefault(whose, [0] * len(starts))[place[day]] += cost
        unpriced[whose] = unpriced.get(whose, 0) + milliseconds
    hours = dict(known)
    end = midnight(local(starts[-1], timezone).date() + timedelta(days=1), timezone)
    whole = tuple(hours.get(start, 0) * HOUR_US == after - start for start, after in pairwise([*starts, end]))
    return Spending(Days(tuple(starts), whole), by_day, unpriced)


Verdict = Literal["over", "likely over", "may be over", "within"]
_HISTORY_DAYS = 98  # fourteen weeks: enough to test forecasts of a month on, and to read at any size


@dataclass(frozen=True, slots=True)
class Ending:
    """What a month is expected to cost in all, in millionths. Low and high hold four of five; None: not known yet.

    `days_missing` is how many more days of history the interval needs.
    """

    expected_micros: int
    low_micros: int | None
    high_micros: int | None
    model: str | None  # None: the month is over, and nothing was forecast
    days_missing: int = 0


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One bearer of a month. `ending` is None where not one week of it is known; `budget` None where it has none."""

    name: str
    team: str | None
    project: str | None
    held: bool
    spent_micros: int
    unpriced_milliseconds: int
    ending: Ending | None
    budget: Budget | None
    verdict: Verdict | None = None  # None: no budget, or nothing can be said yet

    @property
    def is_over(self) -> bool:
        """Whether it is over its budget, or likely to be."""
        return self.verdict in ("over", "likely over")


@dataclass(frozen=True, slots=True)
class MonthReport:
    """A month by team, dearest first, then what maps to no team and what nobody held; projects that have a budget.

    `known_since` is where the ledger begins in the month, `known_until` how far it is known; both microseconds UTC.
    """

    period: Period
    currency: str
    known_since: int
    known_until: int
    lines: tuple[BudgetLine, ...]
    projects: tuple[BudgetLine, ...]
    fleet: BudgetLine
    over: tuple[str, ...]  # the names of those that are over their budget, or likely to be

    @property
    def every(self) -> tuple[BudgetLine, ...]:
        """All bearers: teams, projects, the fleet."""
        return (*self.lines, *self.projects, self.fleet)


def month_report(
    session: Session, period: Period, known_until: int, currency: str, budgets: Sequence[Budget]
) -> MonthReport | None:
    """Return how a month stands as of `known_until`; None where the ledger has nothing of it."""
    until = min(period.end, known_until)
    spent = spending(session, period.timezone, period.start - _HISTORY_DAYS * DAY_US, until)
    return with_verdicts(spent, period, until, currency, budgets)


def with_verdicts(
    spent: Spending, period: Period, until: int, currency: str, budgets: Sequence[Budget]
) -> MonthReport | None:
    """Return the same of what was spent each day."""
    days = [start for start in spent.days.starts if start >= period.start]
    if not days:
        return None
    by_budget = {budget.whose: budget for budget in budgets}
    look = _Look(spent, period, until)
    fleet = look.line(FLEET, list(spent.by_day), (None, None, True), by_budget.get((None, None)))
    lines = [
        look.line(team, [whose for whose in spent.by_day if whose[0] == team and whose[2]], (team, None, True), budget)
        for team, budget in _teams(spent, by_budget)
    ]
    lines = sorted((line for line in lines if _matters(line)), key=lambda line: (line.team is None, -line.spent_micros))
    free = look.line("nobody", [whose for whose in spent.by_day if not whose[2]], (None, None, False), None)
    fleet, free = _closed(fleet, lines, free)
    projects = tuple(
        look.line(budget.name, [whose for whose in spent.by_day if whose[1] == project], (None, project, True), budget)
        for (_, project), budget in by_budget.items()
        if project is not None
    )
    over = tuple(line.name for line in (*lines, *projects, fleet) if line.is_over)
    return MonthReport(period, currency, days[0], until, (*lines, free), projects, fleet, over)


def _teams(
    spent: Spending, by_budget: Mapping[tuple[str | None, str | None], Budget]
) -> list[tuple[str | None, Budget | None]]:
    names = {whose[0] for whose in spent.by_day if whose[2]} | {team for team, _ in by_budget if team}
    return [(name, by_budget.get((name, None)) if name else None) for name in sorted(names, key=lambda n: n or "")]


def _matters(line: BudgetLine) -> bool:
    return bool(
        line.spent_micros or line.budget or line.unpriced_milliseconds or (line.ending and line.ending.expected_micros)
    )


def _closed(fleet: BudgetLine, lines: Sequence[BudgetLine], free: BudgetLine) -> tuple[BudgetLine, BudgetLine]:
    """Return the fleet and what nobody holds such that the expected column sums, as the spent one does."""
    if fleet.ending is None or any(line.ending is None for line in lines):
        return fleet, free
    held = sum(line.ending.expected_micros for line in lines if line.ending)
    whole = max(fleet.ending.expected_micros, held + free.spent_micros)
    changed = _with(fleet, whole)
    return changed, _with(free, whole - held)


def _with(line: BudgetLine, expected: int) -> BudgetLine:
    before = line.ending
    if before is None:
        return line
    low = None if before.low_micros is None else min(before.low_micros, expected)
    high = None if before.high_micros is None else max(before.high_micros, expected)
    ending = Ending(expected, low, high, before.model, before.days_missing)
    return replace(line, ending=ending, verdict=verdict(line.spent_micros, ending, line.budget))


def verdict(spent: int, ending: Ending | None, budget: Budget | None) -> Verdict | None:
    """Return how a bearer stands against its budget."""
    if budget is None:
        return None
    allowed = budget.micros_per_month
    if spent > allowed:
        return "over"
    if ending is None:
        return None
    if ending.expected_micros > allowed:
        return "likely over"
    return "may be over" if ending.high_micros is not None and ending.high_micros > allowed else "within"


@dataclass(frozen=True, slots=True)
class _Look:
    """One month, seen from one moment."""

    spent: Spending
    period: Period
    until: int

    def line(
        self, name: str | None, whose: list[Whose], key: tuple[str | None, str | None, bool], budget: Budget | None
    ) -> BudgetLine:
        """Return the line of one bearer."""
        days = zip(self.spent.days.starts, self.spent.of(whose), strict=True)
        cost = sum(each for start, each in days if start >= self.period.start)
        unpriced = sum(self.spent.unpriced_milliseconds.get(each, 0) for each in whose)
        team, project, held = key
        ending = self._ending(whose, cost)
        judged = verdict(cost, ending, budget)
        return BudgetLine(name or "unmapped", team, project, held, cost, unpriced, ending, budget, judged)

    def _ending(self, whose: list[Whose], cost: int) -> Ending | None:
        if self.until >= self.period.end:
            return Ending(cost, cost, cost, None)
        zone = self.period.timezone
        today = midnight(local(self.until, zone).date(), zone)
        history = self.spent.history(whose, today)
        days = (self.period.last_day - local(today, zone).date()).days + 1
        said = forecast(history, days)
        if said is None:
            return None
        every = zip(self.spent.days.starts, self.spent.of(whose), strict=True)
        so_far = sum(each for start, each in every if start >= today)
        return _ending(said, cost - so_far, so_far, days_missing(history, days))


def _ending(said: Forecast, before: int, so_far: int, missing: int) -> Ending:
    """Return where the month ends: what was spent before today, and the rest as forecast, today's at least so far."""
    more = max(0, so_far - said.by_day[0])
    expected = before + said.total + more
    if said.low is None or said.high is None:
        return Ending(expected, None, None, said.model, missing)
    low = max(before + so_far, before + said.low)
    return Ending(expected, min(low, expected), max(expected, before + said.high + more), said.model)


def read_month(session: Session, calendar: Calendar, settings: Settings, month: str | None) -> MonthReport:
    """Return a month against its budgets; without a word, the month of the newest hour.

    Raises:
        ConfigError: the word names no month.
        LedgerError: the ledger is empty, or has nothing of it.
    """
    now = ledger_end(session)
    period = calendar.month_of(now - 1) if month is None else calendar.parse(month, now)
    if calendar.month_of(period.start) != period:
        raise ConfigError(f"{month} is not a month: write one such as {local(now - 1, period.timezone):%Y-%m}")
    allowed = budget_book(settings).of(period.first_day)
    found = month_report(session, period, now, settings.currency, allowed)
    if found is None:
        raise LedgerError(f"the ledger has nothing of {period.label}")
    return found
