"""From a Prometheus to a ledger: look, ask for the runs, pull, own, place, analyse, and say what came of it."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from agent.wire.units import DAY_US, HOUR_US
from analyzer.analysis import analyze
from analyzer.errors import LedgerError
from analyzer.interfaces.onboarding import screen
from analyzer.interfaces.onboarding.prices import Given, keep_prices, priced_skus
from analyzer.interfaces.onboarding.runs import Runs, mapped
from analyzer.interfaces.onboarding.screen import ImportedSignals, capabilities, explains_input
from analyzer.ledger.believed import believing
from analyzer.ledger.teams import team_book
from analyzer.prices.price_book import price_book
from analyzer.queries.ledger_query import LedgerSum, ledger_sums
from analyzer.settings.settings import Settings
from analyzer.states import BOOKINGS
from analyzer.text.layout import TextLayout, at_column
from analyzer.text.words import counted, percent
from collector.importing.history import Brought, History, Span, bring, own
from collector.prometheus.client import Client
from collector.prometheus.labels import Clusters
from collector.prometheus.pull import Progress, Pulled, pull
from collector.prometheus.survey import Survey, survey
from collector.store.database import Store
from collector.store.session import Session

_SOURCE = "prometheus"
_AGENT = "The agent on the hosts would explain most of what is unexplained."
_TABLES = ("gpu_samples", "host_samples", "disk_samples", "network_samples", "process_samples", "service_samples")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One server's GPU telemetry, and what it has of the hosts beside it."""

    client: Client
    step_seconds: float | None = None
    cluster: str = "default"  # what pods and jobs are of, as the runs are called
    found: Survey | None = None  # what it has, where it was asked before

    def look(self, since: int, until: int) -> Survey:
        """Return what it has between two times, microseconds UTC."""
        return self.found or survey(self.client, since, until, self.cluster)

    def pull(self, store: Store, since: int, until: int, found: Survey, progress: Progress) -> Pulled:
        """Bring it into the store, day by day."""
        return pull(
            self.client,
            store,
            since,
            until,
            progress,
            found=found,
            step_seconds=self.step_seconds,
            tables=_TABLES,
            clusters=Clusters(self.cluster, self.cluster),
        )


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What is to be brought, and how it is told. `beside` is the directory of the store, for prices; None: nowhere."""

    span: Span
    settings: Settings
    prices: Sequence[Given] = ()
    beside: Path | None = None
    today: date = date.min
    layout: TextLayout = field(default_factory=TextLayout)
    say: Callable[[str], None] = print
    progress: Callable[[str], None] = lambda _: None  # a line that the next one overwrites; empty at the end
    monotonic: Callable[[], float] = time.monotonic

    def tell(self, lines: Iterable[str]) -> None:
        """Say lines, in the characters of the paper."""
        self.say(self.layout.page(list(lines)).rstrip("\n"))


def preview(asked: ImportOptions, metrics: Prometheus, runs: Runs, store: Store) -> None:
    """Say what would be brought; the store is only read."""
    found = _found(asked, metrics)
    with believing(store) as session:
        history = runs.history(session, ())
        skus = _skus(session)
    if runs.in_labels:
        asked.tell(screen.line(asked.layout, "allocations", f"{runs.word}: known once they are read"))
    else:
        _tell_runs(asked, runs, history)
    asked.tell(screen.line(asked.layout, "prices", _promised(asked, skus)))
    days = -(-(asked.span.until - asked.span.since) // DAY_US)
    asked.tell(screen.line(asked.layout, "reading", f"{counted(days, 'day')}: not read, since this is a dry run"))
    expected = round((asked.span.until - asked.span.since) / 1e6 / (found.scrape_seconds or 30.0) * found.gpus)
    asked.tell(screen.line(asked.layout, "stored", f"nothing; about {expected:,} samples are expected"))


def onboard(asked: ImportOptions, metrics: Prometheus, runs: Runs, store: Store) -> None:
    """Bring a history into a store and make its ledger, and say on the way what happens.

    Raises:
        LedgerError: the server has no GPU in that span.
        ServerError: the server does not answer; what was brought stays, and is not brought again.
        StoreError: the store refuses it.
    """
    found = _found(asked, metrics)
    with believing(store) as session:
        before = runs.history(session, ())
    if before.claims:
        _tell_runs(asked, runs, before)
    pulled, seconds = _pulled(asked, metrics, found, store)
    own(store, asked.span.since, _SOURCE)
    holders = pulled.holders.to_pylist()
    with believing(store) as session:
        history = runs.history(session, holders)
        skus = _skus(session)
    if not before.claims:
        _tell_runs(asked, runs, history)
    for note in history.notes[len(before.notes) :] if before.claims else ():
        asked.tell(screen.line(asked.layout, "", note))
    settings = asked.settings
    if asked.beside is not None:
        settings = keep_prices(asked.beside, settings, asked.prices, skus, asked.span.since, asked.today)
    prices = priced_skus(price_book(settings), asked.prices, skus, asked.span.since)
    asked.tell(screen.prices_line(asked.layout, prices))
    _tell_pulled(asked, pulled, seconds)
    _tell_placing(asked, bring(store, history, runs.sightings(holders)))
    of = mapped(history, team_book(asked.settings))
    told = ImportedSignals(
        pulled.columns, of.runs, of.endings, bool(prices.known) and not prices.unknown, found.scrape_seconds
    )
    asked.tell(["", *screen.tells(asked.layout, capabilities(told))])
    _analysed(asked, store, settings)
    with believing(store) as session:
        result = _result(session, asked, settings)
    asked.tell(["", *screen.sentence(asked.layout, result)])
    if result.unexplained_ms and not explains_input(told):
        asked.tell([_AGENT])


def _found(asked: ImportOptions, metrics: Prometheus) -> Survey:
    found = metrics.look(asked.span.since, asked.span.until)
    if not found.gpus and {*found.exporters} - {"node_exporter", "serving"}:
        raise LedgerError(
            f"{found.server} has GPU metrics without a label UUID or uuid, by which GPUs are told apart: keep it there"
        )
    if not found.gpus:
        raise LedgerError(
            f"{found.server} has no GPU metrics in these {asked.span.label}, which are DCGM_FI_…, nvidia_smi_… and "
            "gpuledger_…: is dcgm-exporter scraped there? --since names an earlier time"
        )
    every = f", every {found.scrape_seconds:g} s" if found.scrape_seconds else ""
    text = f"{', '.join(found.exporters)} names, {found.gpus:,} GPUs on {counted(found.hosts, 'host')}{every}"
    asked.tell(screen.line(asked.layout, "metrics", text))
    return found


def _tell_runs(asked: ImportOptions, runs: Runs, history: History) -> None:
    of = mapped(history, team_book(asked.settings))
    accounts = counted(of.accounts, "account")
    if not of.runs:
        teams = "none: every GPU counts as free"
    elif asked.settings.teams is None:
        teams = f"{accounts}, no teams file: nobody's team is known"
    else:
        teams = f"{accounts} -> teams ({of.unmapped:,} unmapped)"
    text = f"{runs.word}: {counted(of.runs, runs.jobs)}, {teams}" if of.runs else f"{runs.word}: {teams}"
    asked.tell(screen.line(asked.layout, "allocations", text))
    for note in (*runs.notes, *history.notes):
        asked.tell(screen.line(asked.layout, "", note))


def _tell_placing(asked: ImportOptions, brought: Brought) -> None:
    total = sum(brought.grounds.values())
    assumed = brought.grounds.get("assumed", 0)
    if assumed:
        text = f"which GPU of its host a run had is assumed for {percent(assumed, total)} of the GPU-hours held"
        asked.tell(screen.line(asked.layout, "placed", text))
    for reason, count in brought.unplaced.items():
        asked.tell(screen.line(asked.layout, "", f"{counted(count, 'run')} {reason}"))


def _pulled(asked: ImportOptions, metrics: Prometheus, found: Survey, store: Store) -> tuple[Pulled, float]:
    began = asked.monotonic()

    def progress(done: int, days: int, _: object) -> None:
        asked.progress(screen.reading_line(asked.layout, done, days, None))

    pulled = metrics.pull(store, asked.span.since, asked.span.until, found, progress)
    asked.progress("")
    return pulled, asked.monotonic() - began


def _tell_pulled(asked: ImportOptions, pulled: Pulled, seconds: float) -> None:
    days = len(pulled.days)
    asked.tell([screen.reading_line(asked.layout, days, days, seconds)])
    asked.tell(screen.stored_line(asked.layout, pulled.expected, pulled.stored))
    for note in pulled.notes:
        asked.tell(screen.line(asked.layout, "", note))
    if implausible := sum(day.implausible for day in pulled.days):
        asked.tell(screen.line(asked.layout, "", f"{counted(implausible, 'value')} that no GPU can have: left out"))


def _analysed(asked: ImportOptions, store: Store, settings: Settings) -> None:
    def progress(done: int, days: int) -> None:
        asked.progress(f"{at_column('ledger', screen.COLUMN)}{done} of {counted(days, 'day')}")

    # Nothing of a history is closed by making its ledger: what is still to come of it must not become corrections.
    analyze(store, settings, now_us=asked.span.since, made_at_us=time.time_ns() // 1000, progress=progress)
    asked.progress("")


def _skus(session: Session) -> list[str]:
    rows = session.rows(
        """
        SELECT DISTINCT sku FROM (
            SELECT sku FROM inventory WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL
            UNION SELECT sku FROM ownership)
        WHERE sku IS NOT NULL ORDER BY sku
        """
    )
    return [sku for (sku,) in rows]


def _promised(asked: ImportOptions, skus: Sequence[str]) -> str:
    if skus:
        found = priced_skus(price_book(asked.settings), asked.prices, skus, asked.span.since)
        return f"{len(found.known)} of {counted(len(skus), 'GPU type')} that the store knows already"
    return f"{counted(len(asked.prices), 'price')} given; the GPU types are known once they are read"


def _result(session: Session, asked: ImportOptions, settings: Settings) -> screen.Result:
    since = asked.span.since // HOUR_US * HOUR_US
    sums = ledger_sums(session, "state", "cause", where="hour >= ? AND hour < ?", values=[since, asked.span.until])
    classes = {(one.state, one.cause): one.klass for one in BOOKINGS}
    is_priced = bool(sums) and not any(one.unpriced_milliseconds for one in sums)
    wasted = [one for one in sums if classes[one.keys] == "avoidable"]
    unexplained = [one for one in sums if one.keys[0] == "unexplained"]

    def cost(listed: Sequence[LedgerSum]) -> int | None:
        return sum(one.cost_micros or 0 for one in listed) if is_priced else None

    return screen.Result(
        label=asked.span.label,
        currency=settings.currency,
        milliseconds=sum(one.milliseconds for one in sums),
        avoidable_ms=sum(one.milliseconds for one in wasted),
        unexplained_ms=sum(one.milliseconds for one in unexplained),
        cost=cost(sums),
        avoidable=cost(wasted),
        unexplained=cost(unexplained),
    )
