"""Read a part of the ledger: figures from a session that sees its runs alone, what was judged from the whole fleet's.

What lies between runs (free and drained GPUs, hosts that were silent, how often we were right) is the fleet's, and in
no part. What was found and advised is taken from the whole, so that nobody is accused for want of what others saw.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from analyzer.errors import LedgerError
from analyzer.findings.argue import Argument
from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.findings.judgement import FindingHistory
from analyzer.measures.traffic.matrix import Balance
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.period import Period
from analyzer.queries.statements import BOOKED_COLUMNS, booked
from analyzer.recommendations.lifecycle.lifecycle_tables import Offer
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.findings import FindingsReport, finding_order
from analyzer.reports.groups import By
from analyzer.reports.reader import AboutRuns, Reader
from analyzer.reports.request import WHOLE, LedgerFilter
from analyzer.reports.savings import SavingsReport, checked, savings_report
from analyzer.reports.week import WeekReport
from collector.store.session import Session

# Facts of the site that belong to no team: where hosts stand, which hours there are, which invoice matched.
_PUBLIC = frozenset(
    {
        "inventory",
        "closed_nodes",
        "closed_rates",
        "ledger_hours",
        "analysed_until",
        "amount_hours",
        "analysis",
        "invoice_matches",
    }
)
_RUN_COLUMNS = {
    "not_evaluated": "subject",
    "amount_corrections": "subject",
}  # others name their run `run_id`, or are of none


@contextmanager
def confined(whole: Session, part: LedgerFilter) -> Iterator[Session]:
    """Yield another session on the same store, in one snapshot, that sees this part alone."""
    path = whole.search_path
    with whole.another() as own:
        own.search(path)
        confine(own, part)
        with own.transaction():
            yield own


def confine(session: Session, part: LedgerFilter) -> None:
    """Let a session see the runs of this part alone, whatever it asks; a table that names no run is empty to it.

    Once and for all: views that were made anew would stand before the tables and not before the first ones, and show
    again what those hid.
    """
    if session.has_views_before:
        raise AssertionError("BUG: a session is confined once: a second time could only show it more")
    if not part:
        return
    tables = _tables(session)
    own = f"SELECT r.run_id FROM {tables['runs'][0]} r WHERE {part.condition}"
    views = {}
    for table, (place, has_run) in tables.items():
        if table not in _PUBLIC:
            column = _RUN_COLUMNS.get(table) or ("run_id" if has_run else None)
            where = f"{column} IN ({own})" if column else "false"
            views[table] = f"SELECT * FROM {place} WHERE {where}"
    views |= _of_closed({name: place for name, (place, _) in tables.items()}, part)
    session.stand_before({name: f"CREATE OR REPLACE TEMP VIEW {_quoted(name)} AS {sql}" for name, sql in views.items()})


def _of_closed(places: "dict[str, str]", part: LedgerFilter) -> Iterator[tuple[str, str]]:
    """Yield the views of what closes with a month: of a closed hour is seen what was this part's then.

    Charges are by team: of other parts no hour counts as closed, and they are told as the rates are now.
    """
    ledger = {name: place for name, place in places.items() if name in ("ledger", "adjustments", "closed_runs", "runs")}
    for table in ("ledger", "adjustments"):
        chosen = f"SELECT r.* EXCLUDE (owner, {', '.join(BOOKED_COLUMNS)}) FROM {booked(table, ledger)} r"
        yield table, f"{chosen} WHERE {part.condition}"
    then = f"SELECT c.*, o.owner FROM {places['closed_runs']} c LEFT JOIN {places['runs']} o ON o.run_id = c.run_id"
    for table in ("runs", "closed_runs"):
        seen = f"SELECT r.run_id FROM {places['runs']} r WHERE {part.condition}"
        closed = f"SELECT r.run_id FROM ({then}) r WHERE {part.condition}"
        yield table, f"SELECT * FROM {places[table]} WHERE run_id IN ({seen} UNION {closed})"
    for table in ("closed_hours", "closed_charges", "charge_corrections"):
        where = "true" if table == "closed_hours" else part.condition
        yield table, f"SELECT r.* FROM {places[table]} r WHERE {where if part.is_of_teams else 'false'}"


def _tables(session: Session) -> dict[str, tuple[str, bool]]:
    """Return of every table that an unqualified name leads to where it is, and whether its rows name a run."""
    order = [place.strip().replace('"', "") for place in session.search_path.split(",") if place.strip()]
    order = order or [f"{session.row('SELECT current_database()')[0]}.main"]
    rows = session.rows(
        """
        SELECT database_name, schema_name, table_name, bool_or(column_name = 'run_id') FROM duckdb_columns()
        WHERE NOT internal AND database_name <> 'temp' GROUP BY ALL ORDER BY ALL
        """
    )
    found: dict[str, tuple[str, bool]] = {}
    for wanted in order:
        for database, schema, table, has_run in rows:
            if f"{database}.{schema}".replace('"', "") == wanted:
                found.setdefault(table, (f"{_quoted(database)}.{_quoted(schema)}.{_quoted(table)}", has_run))
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class _FilteredReader(Reader):
    """Reads the runs of `part`; `whole` reads the fleet for it."""

    whole: Reader | None = None

    @property
    def _fleet(self) -> Reader:
        return cast("Reader", self.whole)

    @property
    def samples(self) -> Session:
        """What sees the fleet's: it is asked for those of the runs of this part."""
        return self._fleet.session

    @property
    def runs(self) -> frozenset[str]:
        """The runs of this part."""
        return self.once(
            "runs", lambda: frozenset(run_id for (run_id,) in self.session.rows("SELECT run_id FROM runs"))
        )

    def holds(self, one: AboutRuns) -> bool:
        """Return whether something is of this part: of its team, and of its runs alone where more is asked for."""
        if self.part.teams is not None and one.team not in self.part.teams:
            return False
        if self.part.team not in (None, one.team):
            return False
        only_team = replace(self.part, team=None, teams=None) == WHOLE
        return only_team or (bool(one.run_ids) and self.runs.issuperset(one.run_ids))

    def findings(self, period: Period) -> list[Finding]:
        """Return the fleet's findings of these runs; of one that others share it is what these runs lost."""
        return self._parts(self._fleet.findings(period), lambda: Reader.findings(self, period))

    def of_run(self, run_id: str, span: Period) -> list[Finding]:
        """Return the findings of one of these runs, of one that others share what is of this part."""
        return self._parts(self._fleet.of_run(run_id, span), lambda: Reader.of_run(self, run_id, span))

    def _parts(self, fleets: list[Finding], own: Callable[[], list[Finding]]) -> list[Finding]:
        found = [one for one in fleets if not self.runs.isdisjoint(one.run_ids)]
        if all(map(self.holds, found)):
            return found
        parts = {one.id: one for one in own()}
        shown = [one if self.holds(one) else parts[one.id] for one in found if self.holds(one) or one.id in parts]
        return sorted(shown, key=finding_order)

    def all_advice(self, found: list[Finding], period: Period, *, of_run: bool = False) -> list[Recommendation]:
        """Return what of the fleet's advice is about these runs alone; of a period it answers the fleet's findings."""
        made = self._fleet.all_advice(found, period, of_run=True) if of_run else self._fleet.offer(period).advice
        return [one for one in made if self.holds(one)]

    def offer(self, period: Period) -> Offer:
        """Return what is recommended of a period to these runs."""
        return self._own(self._fleet.offer(period))

    def offered(self, typed: str, period: Period) -> Offer:
        """Return the reading that offers a recommendation under this id, as far as it is about these runs."""
        return self._own(self._fleet.offered(typed, period))

    def _own(self, offer: Offer) -> Offer:
        findings = [one for one in offer.findings if self.holds(one)]
        return Offer([one for one in offer.advice if self.holds(one)], findings, offer.period)

    def looked(self, period: Period) -> PeriodNotices:
        """Return the notices of these runs; what could not be judged of the fleet is the fleet's."""
        return PeriodNotices(tuple(one for one in self._fleet.looked(period).notices if self.holds(one)), ())

    def checked(self, period: Period) -> tuple[Realised, ...]:
        """Return what came of changes of these runs."""
        return checked(self._fleet.session, period, self.holds)

    def savings(self) -> SavingsReport:
        """Return what came of what was recommended to these runs; the fleet's runs are looked at."""
        return savings_report(self._fleet.session, self.settings, self.holds)

    def case(self, period: Period) -> FindingHistory:
        """Return what is kept of all findings: it is looked up by the ids of those that are shown."""
        return self._fleet.case(period)

    def argued(self, finding: Finding, found: list[Finding], period: Period, *, with_signs: bool = True) -> Argument:
        """Return what argues for a finding, by all that was measured beside its runs."""
        return self._fleet.argued(finding, found, period, with_signs=with_signs)

    def traffic(self, run_id: str, span: Period) -> RunTraffic | None:
        """Return what one of these runs moved, without what others moved on a host that it shared."""
        traffic = self._fleet.traffic(run_id, span)
        if traffic is None:
            return None
        shared = {host.node for host in traffic.hosts if host.shared_permille}
        balances = tuple(_own_balance(one) if one.node in shared else one for one in traffic.matrix.balances)
        return replace(traffic, doubts=(), matrix=replace(traffic.matrix, balances=balances))

    def week(self, period: Period, by: By | None = None) -> WeekReport:
        """Return the report of these runs, without the fleet's record; without a word its second table is by run."""
        return replace(Reader.week(self, period, by or "run"), part=self.part, record=None)

    def list_findings(self, period: Period, *, everything: bool = False, sure: str | None = None) -> FindingsReport:
        """Return the findings of these runs, without the fleet's record and count of closed ones."""
        report = Reader.list_findings(self, period, everything=everything, sure=sure)
        trend = None if report.trend is None else replace(report.trend, closed=None)
        return replace(report, part=self.part, record=None, closed=None, trend=trend)


def _own_balance(balance: Balance) -> Balance:
    return replace(balance, link_bytes=None, other_runs_bytes=None, unattributed_bytes=None, excess_bytes=None)


@contextmanager
def filtered(whole: Reader, part: LedgerFilter) -> Iterator[Reader]:
    """Yield a reader of what may be seen of the ledger: of all of it where the part is the whole."""
    if not part:
        yield whole
        return
    with confined(whole.session, part) as own:
        yield _FilteredReader(own, whole.settings, whole.loss_source, clock=whole.clock, part=part, whole=whole)


@contextmanager
def of_part(whole: Reader, part: LedgerFilter) -> Iterator[Reader]:
    """Yield a reader of a part of the ledger that has runs.

    Raises:
        LedgerError: the ledger has no such run, or none that may be seen.
    """
    with filtered(whole, part) as own:
        if part and not own.session.rows("SELECT run_id FROM runs LIMIT 1"):
            raise LedgerError(f"the ledger has no run of {part.words}: gpuledger report names what it has")
        yield own
