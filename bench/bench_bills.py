"""Whether generated bills sum to the millionth, however they are cut: python -m bench.bench_bills [--bills 10000].

Each bill is a day of a ledger: some GPUs, each hour cut into states of runs, of several kinds and ways to buy, at any
price. The same total must come from the ledger's rows, the report, the teams, every grouping of the API, what teams are
charged with what is left to the platform, and the bill for finance as it is printed.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import get_args

from analyzer.finops.charges.sums import charges, read_held
from analyzer.finops.focus.columns import Issuer, Version
from analyzer.finops.focus.export import ExportOptions, export_focus
from analyzer.interfaces.api.costs import Bearer
from analyzer.interfaces.api.ledger import Selection, grouped
from analyzer.period import Period
from analyzer.prices.rows import Charge
from analyzer.queries.ledger_query import Dimension, breakdown
from analyzer.reports.groups import By, groups, teams
from analyzer.states import BOOKINGS
from bench.machine import add_record, keep, machine, told
from collector.store.session import Session
from tests.analyzer.finops.focus_books import DAY, HOUR, MS_PER_HOUR, NOVEMBER, Books
from tests.analyzer.finops.focus_checker import rows_of

MICROS = Decimal(1_000_000)
SKUS, OPTIONS = ("H100-80GB", "A100-80GB"), ("owned", "reserved", "spot", "on_demand")
TEAMS = ("team-a", "team-b", "=team", None)
WORDS = ("one", "other", None)
STORE_BILLS = 200  # bills of one store; then a new one, so that each query stays as quick as the first
BEARERS: tuple[Dimension, ...] = tuple(each for each in get_args(Bearer) if each != "day")


@dataclass
class Tally:
    """How many bills, rows and questions there were, and what did not sum."""

    bills: int = 0
    rows: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, found: int, wanted: int, bill: int) -> None:
        """Hold one total to the ledger's."""
        self.asked[what] += 1
        if found != wanted:
            self.wrong.append(f"bill {bill}: {what} is {found}, not {wanted}")


def main() -> int:
    """Generate, ask, compare, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    add_record(parser)
    options = parser.parse_args()
    random, tally, began = Random(options.seed), Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, options.bills, STORE_BILLS):
            _store(random, tally, range(first, min(options.bills, first + STORE_BILLS)), Path(folder))
            print(f"{tally.bills:,} bills, {tally.rows:,} rows, {len(tally.wrong)} that do not sum", flush=True)
    print(*tally.wrong[:10], sep="\n")
    found = {"bills": tally.bills, "rows": tally.rows, "asked": dict(tally.asked), "wrong": tally.wrong[:10]}
    about = {"machine": machine(), "seed": options.seed, "seconds": round(time.monotonic() - began)}
    keep("bills", about | found, record=options.record)
    return told({f"{tally.bills:,} bills sum in every reading": not tally.wrong})


def _store(random: Random, tally: Tally, bills: range, folder: Path) -> None:
    books = Books()
    for number in range(6):
        words = {word: WORDS[(number + place) % len(WORDS)] for place, word in enumerate(("model", "owner", "project"))}
        books.run(f"slurm/a/{number}", TEAMS[number % len(TEAMS)], f"name-{number % 3}", **words)
    days = {bill: NOVEMBER + (bill - bills.start) * DAY for bill in bills}
    for day in days.values():
        for hour, gpu in _hours(random):
            _book(books, random, day + hour * HOUR, gpu)
        books.hour(day)
        tally.bills += 1
    with books.session() as session:
        for bill, day in days.items():
            _ask(session, tally, random, bill, Period(day, day + DAY, f"bill-{bill}", "UTC"), folder)
    books.store.close()


def _hours(random: Random) -> Iterator[tuple[int, int]]:
    for gpu in range(random.randint(1, 4)):
        for hour in random.sample(range(24), random.randint(1, 3)):
            yield hour, gpu


def _book(books: Books, random: Random, hour: int, gpu: int) -> None:
    owned = random.choice((MS_PER_HOUR, random.randint(1, MS_PER_HOUR)))
    edges = sorted({owned, *(random.randint(1, owned) for _ in range(random.randint(0, 5)))})
    parts = [
        (random.choice((None, *(f"slurm/a/{n}" for n in range(6)))), *_state(random), until - since)
        for since, until in zip([0, *edges], edges, strict=False)
    ]
    price = random.choice((random.randint(1, 99_999_999), 2_600_000, 1, 333_333))
    kind, option = SKUS[gpu % 2], OPTIONS[gpu % 4]
    books.gpu_hour(parts, hour, price, f"GPU-{gpu}", f"n{gpu % 2}", kind, option)


def _state(random: Random) -> tuple[str, str | None]:
    each = random.choice(BOOKINGS)
    return each.state, each.cause or None


def _ask(session: Session, tally: Tally, random: Random, bill: int, period: Period, folder: Path) -> None:
    span = [period.start, period.end]
    rows, whole = session.row(
        "SELECT count(*), sum(cost_micros)::BIGINT FROM ledger WHERE hour >= ? AND hour < ?", span
    )
    tally.rows += rows
    tally.check("report", breakdown(session, period).cost_micros or 0, whole, bill)
    tally.check("teams", sum(row.breakdown.cost_micros or 0 for row in teams(session, period)), whole, bill)
    for by in get_args(By):
        told = groups(session, period, by).shortened(2)
        tally.check(f"by {by}", sum(row.breakdown.cost_micros or 0 for row in told.rows), whole, bill)
    chosen = Selection(("l.hour >= $start", "l.hour < $end"), {"start": period.start, "end": period.end})
    for bearer in BEARERS:
        found = grouped(session, chosen, [bearer, "held"], "USD", 500, None, dearest_first=True).groups
        tally.check(bearer, sum(group.amounts.cost_micros or 0 for group in found), whole, bill)
    rates = [
        Charge(team, None, None, random.randint(1, 99_999_999), 0, None, "bench", date(2026, 11, 1))
        for team in TEAMS
        if team is not None and random.random() < 0.5
    ]
    lines = charges(read_held(session, period), rates)
    together = sum((line.charged_micros or 0) + (line.difference_micros or 0) for line in lines)
    tally.check("charges and differences", together, whole, bill)
    version: Version = random.choice(get_args(Version))
    path = folder / "bill.csv"
    path.unlink(missing_ok=True)
    export_focus(session, ExportOptions(Issuer(version, "a", "a", "USD", "UTC"), period), path)
    for column in ("EffectiveCost", "BilledCost"):
        printed = sum((Decimal(row[column]) for row in rows_of(path)), Decimal(0)) * MICROS
        tally.check(f"FOCUS {column}", int(printed), whole, bill)


if __name__ == "__main__":
    sys.exit(main())
