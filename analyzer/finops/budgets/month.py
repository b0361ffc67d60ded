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


def refuse_unjudged(names: Sequence[str]) -> None:
    """Refuse to say that budgets hold of which that is not known.

    Raises:
        ConfigError: there are such; the sentence names them and says what would tell.
    """
    if names:
        raise ConfigError(
            f"not known to be within budget: {', '.join(names)}; a forecast needs a week of data, and a price for all "
            "GPU time: gpuledger bill prices check"
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
    """By day, of whoever held GPUs: cost in millionths of what has a price, and milliseconds of what has none."""

    days: Days
    by_day: Mapping[Whose, Sequence[int]]
    unpriced_by_day: Mapping[Whose, Sequence[int]]

    def of(self, wanted: "Sequence[Whose]") -> list[int | None]:
        """Return by day what these cost together; None where they held GPUs and none of that has a price."""
        unpriced = self.unpriced(wanted)
        costs = _summed(self.by_day, wanted, len(unpriced))
        return [known_cost(cost, without) for cost, without in zip(costs, unpriced, strict=True)]

    def unpriced(self, wanted: "Sequence[Whose]") -> list[int]:
        """Return by day how long these held GPUs that have no price."""
        return _summed(self.unpriced_by_day, wanted, len(self.days.starts))

    def history(self, wanted: "Sequence[Whose]", until: int) -> list[int | None]:
        """Return the days before the one that begins at `until`; None is a day that has no price, or misses hours.

        A day of 23 or 25 hours counts as 24 of its hours: else the Sundays after it would be forecast to be like it.
        """
        ends = [*self.days.starts[1:], until]
        every = zip(self.days.starts, ends, self.days.whole, self.of(wanted), strict=True)
        return [
            cost * 24 * HOUR_US // (end - start) if is_whole and cost is not None else None
            for start, end, is_whole, cost in every
            if start < until
        ]


def known_cost(cost: int, unpriced_milliseconds: int) -> int | None:
    """Return a cost; None where nothing of the time that it is of has a price."""
    return None if unpriced_milliseconds and not cost else cost


def _summed(by_day: Mapping[Whose, Sequence[int]], wanted: Sequence[Whose], days: int) -> list[int]:
    rows = [by_day[whose] for whose in wanted if whose in by_day]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * days


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
    unpriced: dict[Whose, list[int]] = {}
    for day, team, project, held, cost, milliseconds in rows:
        whose = (team, project, held)
        by_day.setdefault(whose, [0] * len(starts))[place[day]] += cost
        unpriced.setdefault(whose, [0] * len(starts))[place[day]] += milliseconds
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
    """One bearer of a month. `ending` is None where not one week of it is known; `budget` None where it has none.

    `spent_micros` and `ending` are of what has a price; None where nothing has.
    """

    name: str
    team: str | None
    project: str | None
    held: bool
    spent_micros: int | None
    unpriced_milliseconds: int
    ending: Ending | None
    budget: Budget | None
    verdict: Verdict | None = None  # None: no budget, or nothing can be said: no forecast yet, or a part has no price

    @property
    def is_part(self) -> bool:
        """Whether some of its GPU time has no price, and is in no amount."""
        return self.unpriced_milliseconds > 0

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
    lines = sorted(
        (line for line in lines if _matters(line)), key=lambda line: (line.team is None, -(line.spent_micros or 0))
    )
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
    if fleet.ending is None or any(line.ending is None and line.spent_micros for line in (*lines, free)):
        return fleet, free
    held = sum(line.ending.expected_micros for line in lines if line.ending)
    whole = max(fleet.ending.expected_micros, held + (free.spent_micros or 0)) if free.ending else held
    changed = _with(fleet, whole)
    return changed, _with(free, whole - held)


def _with(line: BudgetLine, expected: int) -> BudgetLine:
    before = line.ending
    if before is None:
        return line
    low = None if before.low_micros is None else min(before.low_micros, expected)
    high = None if before.high_micros is None else max(before.high_micros, expected)
    ending = Ending(expected, low, high, before.model, before.days_missing)
    return judged(replace(line, ending=ending))


def judged(line: BudgetLine) -> BudgetLine:
    """Return a bearer with how it stands against its budget; that it is within is not said of a part."""
    allowed = line.budget.micros_per_month if line.budget else None
    return replace(line, verdict=_verdict(line, allowed) if allowed is not None else None)


def _verdict(line: BudgetLine, allowed: int) -> Verdict | None:
    if line.spent_micros is not None and line.spent_micros > allowed:
        return "over"
    if line.ending is None:
        return None
    if line.ending.expected_micros > allowed:
        return "likely over"
    if line.ending.high_micros is not None and line.ending.high_micros > allowed:
        return "may be over"
    return None if line.is_part else "within"


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
        unpriced = self._since(self.spent.unpriced(whose), self.period.start)
        cost = known_cost(self._since(self.spent.of(whose), self.period.start), unpriced)
        team, project, held = key
        ending = None if cost is None else self._ending(whose, cost)
        return judged(BudgetLine(name or "unmapped", team, project, held, cost, unpriced, ending, budget))

    def _since(self, amounts: Sequence[int | None], moment: int) -> int:
        days = zip(self.spent.days.starts, amounts, strict=True)
        return sum(each or 0 for start, each in days if start >= moment)

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
        so_far = self._since(self.spent.of(whose), today)
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
