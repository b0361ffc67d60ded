"""How long the money's readings take as the fleet grows: python -m bench.bench_finops [--gpus 1000 10000 --weeks 5].

The ledger is written by SQL (bench/ledger_fleet.py): it is read, not made. Each reading is asked twice of a store that
was opened just now; both times are kept.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from analyzer.finops.anomalies import anomalies
from analyzer.finops.budgets.month import month_report
from analyzer.finops.demand import outlook
from analyzer.finops.focus.columns import Issuer
from analyzer.finops.focus.export import ExportOptions, FileFormat, export_focus
from analyzer.finops.unit_cost.report import unit_report
from analyzer.interfaces.text.week_text import week_text
from analyzer.period import Calendar
from analyzer.prices.price_book import PriceBook
from analyzer.reports.week import week_report
from analyzer.text.layout import TextLayout
from bench.ledger_fleet import Size, write
from bench.machine import add_record, keep, machine, told
from collector.store.database import Store
from collector.store.session import Session

BERLIN = Calendar("Europe/Berlin")
WEEK, MONTH = BERLIN.week(2026, 46), BERLIN.month(2026, 11)
WEEK_SECONDS, AT_GPUS = 2.0, 10_000


def readings(session: Session, folder: Path) -> dict[str, Callable[[], object]]:
    """Return what is asked, by name; exports write into a folder."""

    def focus(form: FileFormat) -> object:
        issuer = Issuer("1.2", "alpha", "alpha", "USD", WEEK.timezone)
        return export_focus(session, ExportOptions(issuer, WEEK, form=form), folder / f"week.{form}")

    gpus: dict[tuple[str | None, str], int] = {("H100-80GB", "reserved"): 1, ("A100-80GB", "owned"): 1}
    return {
        "week": lambda: week_text(week_report(session, WEEK, BERLIN, "USD", [], []), TextLayout()),
        "budgets": lambda: month_report(session, MONTH, WEEK.end, "USD", []),
        "units": lambda: unit_report(session, WEEK, BERLIN, "USD"),
        "anomalies": lambda: anomalies(session, WEEK, "USD"),
        "demand": lambda: outlook(session, WEEK.end, "Europe/Berlin", "USD", PriceBook(), gpus),
        "focus csv": lambda: focus("csv"),
        "focus parquet": lambda: focus("parquet"),
    }


def measured(path: Path) -> dict[str, dict[str, float]]:
    """Return by reading the seconds of the first and the second time, by the wall and of the processor."""
    found = {}
    with Store.open(path, read_only=True, memory_limit="1GB") as store, store.session() as session:
        for name, ask in readings(session, path.parent).items():
            times: dict[str, float] = {}
            for turn in ("first", "second"):
                wall, cpu = time.monotonic(), time.process_time()
                ask()
                times |= {f"{turn}_seconds": time.monotonic() - wall, f"{turn}_cpu": time.process_time() - cpu}
            found[name] = {key: round(value, 3) for key, value in times.items()}
    return found


def main() -> int:
    """Write, ask, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--weeks", type=int, default=5)
    add_record(parser)
    options = parser.parse_args()
    sizes: dict[int, object] = {}
    bars = {}
    for gpus in options.gpus:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.duckdb"
            rows = write(path, Size(gpus, options.weeks))
            times = measured(path)
        sizes[gpus] = {"ledger_rows": rows, "readings": times}
        print(
            gpus,
            "GPUs,",
            f"{rows:,} rows:",
            *(f"{name} {each['second_seconds']:.2f} s" for name, each in times.items()),
        )
        if gpus == AT_GPUS:
            bars[f"the week of {AT_GPUS:,} GPUs in {WEEK_SECONDS} s"] = times["week"]["first_seconds"] <= WEEK_SECONDS
    keep("finops", {"machine": machine(), "weeks": options.weeks, "sizes": sizes}, record=options.record)
    return told(bars)


if __name__ == "__main__":
    sys.exit(main())
