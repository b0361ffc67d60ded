"""The two sites that are aged: the demo's week, and a month drawn by a seed, of many teams, services and runs.

Each is what a server leaves on its disk: a hot file and a lake beside it, sealed, booked and closed.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.wire.units import HOUR_MS
from analyzer.analysis import analyze
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from bench.aging.readings import Asked
from bench.demo_store import demo_fleet, fill
from collector.lake.lake_files import writing
from collector.lake.sealing import seal
from collector.lake.tiers import note_due, roll_up, waiting_hours
from collector.store.books import mirror
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import make_tier_tables
from collector.store.seal_mark import Mark
from dashboards.demo import write_settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, Fleet, Row

NODES, GPUS = 6, 2
LEFT_HOURS = 6  # which are to be rolled up again when the schedules of a site begin
MONTH_START = 1_793_491_200_000_000  # Sunday 1 November 2026, 00:00 UTC
MONTH_END = MONTH_START + 30 * DAY
DEMO_START = 1_794_178_800_000_000  # Monday 9 November 2026, 00:00 in Europe/Berlin
ACCOUNTS = ("nlp", "vision", "search", "speech", "nobody")
_MORE = {
    "prices.toml": "".join(
        f'\n[[charge]]\nteam = "team-{team}"\nusd_per_gpu_hour = {rate}\nfrom = 2026-01-01\nas_of = 2026-11-01\n'
        'source = "invented"\n'
        for team, rate in (("nlp", 2.9), ("search", 1.7))
    ),
    "gpuledger.toml": 'budgets = "budgets.toml"\ntariffs = "tariffs.toml"\n',
    "budgets.toml": '[[budget]]\nteam = "team-nlp"\nusd_per_month = 5000\nfrom = 2026-01-01\nsource = "invented"\n',
    "tariffs.toml": 'provider = "aws"\n',
}


@dataclass(frozen=True, slots=True)
class Aged:
    """A site in a folder, the moment its hours began to age, and what is asked of it."""

    folder: Path
    start_us: int
    asked: Asked

    @property
    def settings(self) -> Settings:
        """The site's settings, as its commands read them."""
        return Settings.beside(self.folder / "store.duckdb")


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """Yield the store of a site as its server opens it."""
    path = folder / "store.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        yield store


def demo_week(folder: Path) -> Aged:
    """Make the demo's week, every minute."""
    return _made(folder, DEMO_START, 7 * DAY, "2026-W46", _land)


def drawn_month(folder: Path, seed: int) -> Aged:
    """Make the month of a seed: samples every half an hour, and every amount that a host can tell."""
    return _made(folder, MONTH_START, 30 * DAY, "2026-W46", lambda store: month(Fleet(store), random.Random(seed)))


def _made(folder: Path, start: int, span: int, week: str, filled: Callable[[Store], None]) -> Aged:
    folder.mkdir(parents=True)
    write_settings(folder)
    for name, text in _MORE.items():
        with (folder / name).open("a") as file:
            file.write(text)
    now = start + span + 20 * DAY  # its weeks are closed, and its month is final
    settings = Settings.beside(folder / "store.duckdb")
    with opened(folder) as store:
        make_tier_tables(store)
        filled(store)
        _roll_up_most(store)
        analyze(store, settings, now_us=now)
        mirror(store, "bench")
        asked = _asked(store, settings, Asked(week, "2026-11", now, (), ()))
    return Aged(folder, start, asked)


def _land(store: Store) -> None:
    fill(store, demo_fleet(1, 60), 6 * HOUR_MS)
    mark = Mark.of(store)
    while seal(store, mark).more:
        pass


def _roll_up_most(store: Store) -> None:
    """Roll all up, and let the last hours wait again: it takes longest, and each schedule would do the same again."""
    with writing(store) as session:
        note_due(session)
        last = waiting_hours(session)[-LEFT_HOURS:]
    roll_up(store, time.monotonic() + 3600)
    with writing(store) as session:
        session.load("tier_due", ("hour",), [(hour,) for hour in last])


def _asked(store: Store, settings: Settings, asked: Asked) -> Asked:
    """Return what can be asked of a site: every run of the period, every finding and every recommendation."""
    with store.session() as session:
        reader = Reader(session, settings, clock=lambda: asked.now_us)
        period = reader.period(asked.week)
        known: dict[str, object] = {"start": period.start, "end": period.end}
        runs = session.rows(
            "SELECT DISTINCT run_id, name, exit_status FROM ledger JOIN runs USING (run_id) "
            "WHERE hour >= $start AND hour < $end ORDER BY ALL",
            known,
        )
        found = reader.findings(period)
        advice = reader.all_advice(found, period)
    return Asked(
        asked.week,
        asked.month,
        asked.now_us,
        tuple(run for run, *_ in runs),
        tuple(sorted({name for _, name, ended in runs if name and ended == "completed"})),
        tuple(one.id for one in found),
        tuple(one.id for one in advice),
    )


def month(fleet: Fleet, draw: random.Random) -> None:
    """Let hosts be held by runs of all teams and by services for a month, and tell all that they can of each."""
    with fleet.together():
        for number in range(NODES):
            node = f"m{number}"
            at = {"node": node, "started_at": MONTH_START, "ended_at": MONTH_START + 1}
            fleet.add("inventory", [at | {"rack": f"r{number // 2}", "zone": f"z{number // 3}"}])
            gpus = [f"{node}g{index}" for index in range(GPUS)]
            fleet.own(node, gpus, owned_from=MONTH_START, purchase_option="reserved")
            for gpu in gpus:
                fleet.add("gpu_samples", list(_samples(draw, node, gpu)))
            for start, end in _spans(draw):
                (_service if number >= NODES - 2 else _training)(fleet, draw, node, gpus, start, end)


def _spans(draw: random.Random) -> Iterator[tuple[int, int]]:
    """Yield spans in which somebody holds a host, with pauses between them."""
    at = MONTH_START
    while at < MONTH_END:
        end = min(MONTH_END, at + draw.randrange(HOUR, 5 * DAY, MINUTE))
        yield at, end
        at = end + draw.randrange(MINUTE, 8 * HOUR, MINUTE)


def _samples(draw: random.Random, node: str, gpu: str) -> Iterator[Row]:
    at = MONTH_START
    while at < MONTH_END:
        end = min(MONTH_END, at + 30 * MINUTE)
        busy = draw.choice((0.0, 0.3, 0.97, draw.random()))
        row: Row = {"node": node, "gpu_uuid": gpu, "started_at": at, "ended_at": end, "up": True}
        row |= {"utilization_ratio": busy, "utilization_zero_ratio": 1 - busy, "sm_active_ratio": busy * 0.9}
        row |= {"energy_joules": 60.5 + draw.random() * 10**6, "power_watts": 100.0 + 500.0 * busy}
        row |= {"memory_used_bytes": draw.randrange(1, 80 * 10**9), "nvlink_transmit_bytes": draw.randrange(10**12)}
        yield row | {"nvlink_receive_bytes": draw.randrange(10**12)}
        at = end + draw.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 90 * MINUTE))


def _training(fleet: Fleet, draw: random.Random, node: str, gpus: list[str], start: int, end: int) -> None:
    run = f"slurm/alpha/{draw.randrange(10**6)}"
    name, ended = f"train-{draw.randrange(8)}", draw.choice(("completed", "completed", "failed", "cancelled"))
    fleet.hold(run, node, gpus, start, end, name=name, exit_status=ended, **_facts(draw))
    rows = []
    for at in range(start, end, 2 * HOUR):
        until = min(end, at + 2 * HOUR)
        row = {"node": node, "run_id": run, "started_at": at, "ended_at": until}
        row |= {"steps": draw.randrange(1, 500), "samples": draw.randrange(10**5), "tokens": draw.randrange(10**7)}
        rows.append(row | {"checkpoint": draw.choice((None, "saved"))})
    fleet.add("progress", rows)
    spans = [{name: row[name] for name in ("node", "started_at", "ended_at")} for row in rows]
    told = [
        {**span, "receive_bytes": draw.randrange(10**12), "transmit_bytes": draw.randrange(10**12)} for span in spans
    ]
    peers = [peer for peer in ("m0", "m1", "nas1") if peer != node]
    fleet.add("flow_samples", [{**one, "run_id": run, "peer": draw.choice(peers)} for one in told])
    fleet.add("network_samples", [{**one, "device": "ib0", "link_kind": "infiniband"} for one in told])


def _service(fleet: Fleet, draw: random.Random, node: str, gpus: list[str], start: int, end: int) -> None:
    run = f"kubernetes/prod/{node}-{draw.randrange(10**6)}"
    name = draw.choice(("chat", "rank", "embed"))
    fleet.hold(run, node, gpus, start, end, name=name, **{**_facts(draw), "scheduler": "kubernetes"})
    rows = []
    for at in range(start, end, HOUR):
        row = {"node": node, "run_id": run, "started_at": at, "ended_at": min(end, at + HOUR), "engine": "vllm"}
        row |= {"requests": draw.randrange(10**5), "tokens_in": draw.randrange(10**7)}
        row |= {"tokens_out": draw.randrange(10**7), "slo_seconds": 0.25}
        rows.append(row | {"first_token_seconds_p99": draw.choice((None, draw.random() / 2))})
    fleet.add("service_samples", rows)


def _facts(draw: random.Random) -> Row:
    account = draw.choice(ACCOUNTS)
    return {"account": account, "user": f"{account}-user{draw.randrange(3)}", "queue": draw.choice(("day", "night"))}
