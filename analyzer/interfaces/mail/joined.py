"""What other parts add to a mail: the month and its budgets, what was out of the ordinary, requests, energy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.decided import line as request_line
from analyzer.finops.anomalies import Anomalies, anomalies, anomaly_words
from analyzer.finops.budgets.budget_file import budget_book
from analyzer.finops.budgets.month import BudgetLine, MonthReport, month_report
from analyzer.finops.budgets.text import between, over_words, since_words
from analyzer.finops.non_gpu_costs.costs import energy_of, read_drawn
from analyzer.finops.non_gpu_costs.energy import EnergySum
from analyzer.finops.non_gpu_costs.rates import non_gpu_rates
from analyzer.finops.unit_cost.report import UnitReport, unit_report
from analyzer.finops.unit_cost.text import change_words
from analyzer.interfaces.mail.content import Extras, Month, Section
from analyzer.interfaces.mail.corrected import Corrections
from analyzer.interfaces.mail.energy import energy_sentences
from analyzer.period import Period
from analyzer.text.words import money, money_decimals

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

_ODD_SHOWN = 5  # of changes of unit cost, and of teams
REQUESTS_SHOWN = 20  # a mail of thousands would be too large for its own bound, and nobody would get it


@dataclass(frozen=True, slots=True)
class Joined:
    """What was read once for all mails of a period; `month` is as known at the period's end, None without prices."""

    month: MonthReport | None
    odd: Anomalies
    units: UnitReport
    asked: tuple[Decided, ...] = ()
    energy: tuple[EnergySum, ...] = ()
    corrections: Corrections | None = None

    @classmethod
    def read(cls, reader: "Reader", period: Period, asked: Sequence[Decided] = ()) -> "Joined":
        """Read all of it; `asked` are the capacity requests of the period."""
        session, calendar, currency = reader.session, reader.calendar, reader.settings.currency
        whole = calendar.month_of(period.end - 1)
        allowed = budget_book(reader.settings).of(whole.first_day)
        month = month_report(session, whole, period.end, currency, allowed)
        is_priced = month is not None and month.fleet.spent_micros > 0
        return cls(
            month if is_priced else None,
            anomalies(session, period, currency),
            unit_report(session, period, calendar, currency),
            tuple(asked),
            energy_of(read_drawn(session, period), session, period, non_gpu_rates(reader.settings)),
            Corrections.read(session, calendar, period, currency),
        )

    def extras(self, team: str | None) -> Extras:
        """Return what belongs into the mail of the fleet (None), or into that of one team."""
        found = Extras(
            anomalies=Section("out of the ordinary", tuple(self._odd(team))),
            requests=Section("capacity requests", request_lines(self.asked, team)),
            corrections=self.corrections.lines(team) if self.corrections else (),
            energy=Section("energy", energy_sentences(self.energy, self.odd.currency) if team is None else ()),
        )
        if self.month is None:
            return found
        if team is not None:
            return replace(found, month=Section("the month", tuple(_own_month(self.month, team))))
        months = {(line.team, line.held): _month(line) for line in self.month.lines}
        told = [f"{over_words(line, self.month.currency)}." for line in self.month.every if line.is_over]
        told += [since] if (since := since_words(self.month)) else []
        return replace(found, months=months, of_months=tuple(told))

    def _odd(self, team: str | None) -> list[str]:
        """Return sentences on what cost more than before: of one team those on its own work alone."""
        zone = self.odd.period.timezone
        found = [(line, change) for line, change in self.units.changes if team is None or line.team == team]
        said = [change_words(line, change, self.odd.currency, zone) for line, change in found[:_ODD_SHOWN]]
        teams = [one for one in self.odd.found if team is None or one.team == team]
        return [*said, *(anomaly_words(one, self.odd) for one in teams[:_ODD_SHOWN])]


def request_lines(asked: Sequence[Decided], team: str | None) -> tuple[str, ...]:
    """Return a line for each request of a team, or of all (None); of more than a reader reads, how many are left."""
    own = [one for one in asked if team in (None, one.request.team)]
    lines = tuple(request_line(one) for one in own[:REQUESTS_SHOWN])
    left = len(own) - REQUESTS_SHOWN
    return (*lines, f"and {left:,} more (all of them: gpuledger capacity request list)") if left > 0 else lines


def _month(line: BudgetLine) -> Month:
    ends = line.ending.expected_micros if line.ending is not None else None
    return Month(line.spent_micros, ends, line.is_over, line.unpriced_milliseconds > 0)


def _own_month(month: MonthReport, team: str) -> list[str]:
    line = next((one for one in month.lines if one.held and one.team == team), None)
    if line is None:
        return []
    ending = line.ending if line.ending is not None and line.ending.model is not None else None
    allowed = line.budget.micros_per_month if line.budget is not None else 0
    decimals = money_decimals(max(line.spent_micros, allowed, ending.expected_micros if ending else 0))
    said = f"{month.period.label} so far: {money(line.spent_micros, month.currency, decimals)}"
    if line.is_over:
        return [f"{said}.", f"{over_words(line, month.currency)}."]
    if ending is not None:
        said += f"; by its end about {money(ending.expected_micros, month.currency, decimals)}{between(line)}"
    if line.budget is not None:
        said += f"; the budget is {money(allowed, month.currency, decimals)}"
    return [f"{said}."]
