"""How long two questions take: python -m bench.bench_query [--gpus 192 --days 7 --every 10].

One run's week (8 GPUs, 6 columns, mean and extremes, at most 2,000 points a series) out of a fleet's, from the lake
once it is rolled up and compacted; and what is avoidable by cause over the fleet's week, from the ledger. Both are
asked of VictoriaMetrics too, which holds the same samples, over HTTP as it is meant to be; each once of a
store that was opened just now, and then again and again.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from urllib.parse import quote

from analyzer.states import BOOKINGS
from bench.machine import add_record, keep, machine, told
from bench.query_fleet import COLUMNS, LEDGER, MONDAY_US, PER_HOST, Week, asked, book, export, fill
from bench.tsdb_servers import VictoriaMetrics
from collector.lake.compaction import compact
from collector.lake.series import MAX_POINTS, TableExtent, gpus_of_run, series
from collector.lake.tiers import roll_up
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import make_tier_tables
from collector.store.session import Session
from collector.tier_tables import tiered

SERIES_MS, LEDGER_MS = 100.0, 50.0
TIMES = 21
FOREVER = 1e12


def main() -> int:
    """Fill, ask, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=192)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--every", type=int, default=10, help="seconds between samples")
    parser.add_argument("--keep", type=Path, help="a folder to fill once and ask again")
    parser.add_argument("--alone", action="store_true", help="leave VictoriaMetrics out")
    add_record(parser)
    options = parser.parse_args()
    week = Week(options.gpus, options.days, options.every)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = _made(folder, week) | _asked(folder, week)
        if not options.alone:
            with VictoriaMetrics(folder / "victoria") as server:
                found |= _other(folder, week, server)
    print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
    asked = {name: value for name, value in vars(options).items() if name not in ("keep", "record")}
    keep("query", {"machine": machine(), "week": asked} | found, record=options.record)
    return told(
        {
            f"one run's week in {SERIES_MS:.0f} ms": _median(found, "series") <= SERIES_MS,
            f"avoidable by cause in {LEDGER_MS:.0f} ms": _median(found, "ledger") <= LEDGER_MS,
        }
    )


def _median(found: dict[str, object], name: str) -> float:
    times = found[name]
    assert isinstance(times, dict)
    return float(times["median_ms"])


def _made(folder: Path, week: Week) -> dict[str, object]:
    path = folder / "store.duckdb"
    if path.exists():
        return {"made": "before"}
    began = time.monotonic()
    with Store.open(path, lake=default_lake(path), memory_limit="2GB") as store:
        make_tier_tables(store)
        rows = fill(store, week)
        filled = time.monotonic()
        roll_up(store, FOREVER)
        rolled = time.monotonic()
        compact(store, FOREVER, week.until_us + 3_600_000_000)
        compacted = time.monotonic()
        booked = book(store, week)
        store.checkpoint()
    return {
        "gpu_samples": rows,
        "ledger_rows": booked,
        "fill_seconds": round(filled - began, 1),
        "roll_up_seconds": round(rolled - filled, 1),
        "compaction_seconds": round(compacted - rolled, 1),
    }


def _asked(folder: Path, week: Week) -> dict[str, object]:
    """Ask our store, as another process that has the file to itself would."""
    path = folder / "store.duckdb"
    with Store.open(path, read_only=True) as store, store.session() as session:
        points: list[int] = []
        asked_first = _timed(lambda: TableExtent.of(session, tiered("gpu_samples")))
        kept = TableExtent.of(session, tiered("gpu_samples"))
        run_week = _timed(lambda: points.append(_week(session, week, kept)))
        avoidable = _timed(lambda: _avoidable(session, week))
    assert set(points) == {PER_HOST * len(COLUMNS)}, points
    return {"series": run_week, "what_is_kept": asked_first, "ledger": avoidable}


def _week(session: Session, week: Week, kept: TableExtent) -> int:
    with session.transaction():  # as the API asks
        found = series(session, gpus_of_run(session, "slurm/b/1"), COLUMNS, MONDAY_US, week.until_us, kept=kept)
    assert all(len(each.mean) <= MAX_POINTS and not each.mean.null_count for each in found)
    return len(found)


def _avoidable(session: Session, week: Week) -> None:
    causes = ", ".join(f"('{b.state}', '{b.cause}')" for b in BOOKINGS if b.klass == "avoidable")
    rows = session.rows(
        f"""
        SELECT state, cause, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT FROM (
            SELECT hour, state, cause, milliseconds, cost_micros FROM ledger
            UNION ALL SELECT hour, state, cause, milliseconds, cost_micros FROM adjustments)
        WHERE hour >= {MONDAY_US} AND hour < {week.until_us} AND (state, cause) IN ({causes})
        GROUP BY ALL ORDER BY 3 DESC
        """
    )
    assert rows


def _other(folder: Path, week: Week, server: VictoriaMetrics) -> dict[str, object]:
    """Ask VictoriaMetrics the same."""
    with Store.open(folder / "store.duckdb", read_only=True) as store:
        values = export(store, week, server)
    server.ask("/internal/force_merge")
    time.sleep(5)
    gpus, _ = week.run()
    step = 60 * -(-week.days * 1440 // (MAX_POINTS - 1))
    names, uuids = "|".join(COLUMNS), "|".join(gpus)
    query = quote(f'rollup({{__name__=~"{names}",gpu_uuid=~"{uuids}"}}[{step}s]) keep_metric_names')
    start, end = MONDAY_US // 10**6, week.until_us // 10**6
    run_week = f"/api/v1/query_range?query={query}&start={start}&end={end}&step={step}s&nocache=1"
    avoidable = "|".join(f"{b.state}/{b.cause}" for b in BOOKINGS if b.klass == "avoidable")
    total = quote(f'sum by (word) (sum_over_time({LEDGER}{{word=~"{avoidable}"}}[{week.days}d]))')
    instant = f"/api/v1/query?query={total}&time={end}&nocache=1"
    assert asked(server, run_week) == 3 * len(gpus) * len(COLUMNS)
    assert asked(server, instant)
    return {
        "victoria_values": values,
        "victoria_series": _timed(lambda: asked(server, run_week)),
        "victoria_ledger": _timed(lambda: asked(server, instant)),
    }


def _timed(ask: Callable[[], object]) -> dict[str, float]:
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
    return {
        "first_ms": round(times[0], 1),
        "median_ms": round(median(times[1:]), 1),
        "worst_ms": round(max(times[1:]), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
