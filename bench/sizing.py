"""The figures of docs/sizing.md, computed from bench/results: python -m bench.sizing writes them, a test compares them.

Nothing here is measured. Each function takes what was measured and returns one table of the document; what is assumed
is a constant with its reason.
"""

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.wire.tables import TABLES
from bench.machine import ROOT, kept
from collector.config import CollectorConfig

DOCUMENT = ROOT / "docs" / "sizing.md"
GPUS, GPUS_PER_HOST = 100_000, 8
HOSTS = GPUS // GPUS_PER_HOST
BEATS = (10, 1)  # seconds between readings: the agent's default, and the finest that most sites ask for
POSTS = (10, 30, 60)  # seconds between posts of one agent
HEADROOM = 2.0  # a collector is planned for half of what it was measured to hold: the other half is for catching up
DAY, HOUR = 86_400, 3600
DEMO_GPU_DAYS = 192 * 7  # of bench_analyzer
# How many rows a host of eight GPUs makes: at every beat, and every ten seconds at most (bench/telemetry.py).
BEATEN = {"gpu_samples": 8, "host_samples": 1, "disk_samples": 2, "network_samples": 9, "agent_samples": 1}
SLOW = {"process_samples": 8, "run_samples": 2, "flow_samples": 14, "service_samples": 1, "progress": 1}
SLOW_SECONDS = 10
# Amazon's list prices for S3 Standard in us-east-1, in dollars; put your own store's here.
S3_GB_MONTH, S3_PUTS, S3_GETS = 0.023, 0.005 / 1000, 0.0004 / 1000
SEALED_COLUMNS = sum(len(TABLES[table].columns) + 1 for table in (*BEATEN, *SLOW)) + 9  # and those of the receipts


@dataclass(frozen=True, slots=True)
class Measured:
    """What the benches found. None where a bench has not been run."""

    gpu_samples_per_second: int  # of one collector, with all tables of ten seconds in each batch
    posts_per_second: float  # of such batches
    cores: int
    rss_bytes: int
    bytes_per_row: Mapping[str, float]
    rows_per_gpu_hour: Mapping[str, float]  # at one reading a second
    body_bytes_of_a_minute: float  # of a host, at one reading a second
    analyzer_samples_per_second: float
    ledger_rows_per_gpu_day: float
    agents_held: int | None

    @classmethod
    def read(cls) -> "Measured":
        """Read them."""
        ingest, analyzer, sizes, agents = (kept(name) or {} for name in ("ingest", "analyzer", "sizes", "agents"))
        everything = _of_all_tables(ingest["results"])
        runs = analyzer["every 10 s"]["runs"]
        seconds = sorted(run["seconds"] for run in runs)[len(runs) // 2]
        tables = sizes["tables"]
        return cls(
            everything.get("gpu_samples_per_second") or everything["gpu_rows_per_second"],
            (everything.get("bodies") or everything["batches"]) / everything["seconds"],
            ingest["machine"]["cores"],
            everything.get("rss_bytes_max") or everything["server_rss_bytes"],
            {one["table"]: one["bytes_per_row"] for one in tables},
            {one["table"]: one["rows_per_gpu_hour"] for one in tables},
            sizes["body_bytes_of_a_minute"],
            analyzer["every 10 s"]["gpu_samples"] / seconds,
            runs[0]["rows"] / DEMO_GPU_DAYS,
            agents.get("largest_that_holds"),
        )


def _of_all_tables(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in results if "tables" in one["shape"])


def rows_per_second(table: str, beat: int) -> float:
    """Return the rows a second of a table over the whole fleet, agents reading every `beat` seconds."""
    per_host = BEATEN[table] / beat if table in BEATEN else SLOW[table] / max(beat, SLOW_SECONDS)
    return HOSTS * per_host


def arrival(_: Measured) -> str:
    """Return the table of what arrives a second."""
    rows = [(f"`{table}`", *(f"{rows_per_second(table, beat):,.0f}" for beat in BEATS)) for table in (*BEATEN, *SLOW)]
    total = ("all", *(f"{_rows(beat):,.0f}" for beat in BEATS))
    return _table(("rows a second of", *(f"a reading every {beat} s" for beat in BEATS)), [*rows, total])


def posts(measured: Measured) -> str:
    """Return the table of requests and bytes that arrive."""
    rows = []
    for every in POSTS:
        sent = [HOSTS * measured.body_bytes_of_a_minute / 60 * _rows(beat) / _rows(1) for beat in BEATS]
        rows.append((f"every {every} s", f"{HOSTS / every:,.0f}", *(f"{_size(rate)}/s" for rate in sent)))
    return _table(
        ("an agent posts", "requests a second", *(f"bytes, a reading every {beat} s" for beat in BEATS)), rows
    )


def _rows(beat: int) -> float:
    return sum(rows_per_second(table, beat) for table in (*BEATEN, *SLOW))


def collectors_needed(measured: Measured, beat: int, every: int = POSTS[0]) -> int:
    """Return how many collectors take the fleet at half of what each was measured to hold, of samples and of posts."""
    by_samples = rows_per_second("gpu_samples", beat) / measured.gpu_samples_per_second
    return math.ceil(HEADROOM * max(by_samples, HOSTS / every / measured.posts_per_second))


def collectors(measured: Measured) -> str:
    """Return the table of collectors."""
    rows = []
    for beat in BEATS:
        for every in POSTS:
            needed = collectors_needed(measured, beat, every) + 1
            rows.append(
                (
                    f"{beat} s, a post every {every} s",
                    f"{rows_per_second('gpu_samples', beat):,.0f}",
                    f"{HOSTS / every:,.0f}",
                    f"{needed - 1:,} and one to spare",
                    f"{needed * measured.cores:,}",
                    _size(needed * measured.rss_bytes),
                )
            )
    held = f"One collector on {measured.cores} cores holds {measured.gpu_samples_per_second:,} GPU samples/s in "
    held += f"{measured.posts_per_second:,.0f} posts/s"
    if measured.agents_held:
        held += f"; one was seen to hold {measured.agents_held:,} agents of eight GPUs that post every 10 s"
    held += ".\n\n"
    head = ("a reading every", "GPU samples/s", "posts/s", "collectors", "cores", "memory in use")
    return held + _table(head, rows)


def files_per_hour(measured: Measured, beat: int, seal_seconds: float) -> float:
    """Return how many files all collectors write an hour before they are merged: one a table and sealing."""
    return (collectors_needed(measured, beat) + 1) * (len(BEATEN) + len(SLOW) + 1) * HOUR / seal_seconds


def sealing(measured: Measured) -> str:
    """Return the table of files and of what the catalogue takes."""
    rows = []
    for seal_seconds in (60, 300):
        for beat in BEATS:
            written = files_per_hour(measured, beat, seal_seconds)
            commits = (collectors_needed(measured, beat) + 1) * HOUR / seal_seconds
            statistics = written * SEALED_COLUMNS / (len(BEATEN) + len(SLOW) + 1)
            rows.append(
                (
                    f"{seal_seconds} s, a reading every {beat} s",
                    f"{written:,.0f}",
                    f"{commits:,.0f}",
                    f"{statistics:,.0f}",
                    f"{statistics / HOUR:,.0f}",
                )
            )
    return _table(("sealed every", "files an hour", "commits an hour", "catalogue rows an hour", "a second"), rows)


def bytes_per_gpu_day(measured: Measured, tier: str, beat: int) -> float:
    """Return the bytes that one GPU's part of a tier takes a day, all tables together."""
    found = 0.0
    for table, size in measured.bytes_per_row.items():
        kind = table.rpartition("_")[2]
        of_tier = kind if kind in ("minutes", "hours") else "raw"
        if of_tier != tier or table == "receipts":
            continue
        rows = measured.rows_per_gpu_hour[table] * 24
        if tier == "raw" and table in BEATEN:
            rows /= beat
        found += rows * size
    return found


def _kept_days(tier: str) -> int:
    config = CollectorConfig()
    return {"raw": config.raw_days, "minutes": config.minute_days, "hours": config.hour_days}[tier]


def storage(measured: Measured) -> str:
    """Return the table of bytes at rest."""
    rows, totals = [], dict.fromkeys(BEATS, 0.0)
    for tier in ("raw", "minutes", "hours"):
        days = _kept_days(tier)
        a_day = [bytes_per_gpu_day(measured, tier, beat) for beat in BEATS]
        for beat, size in zip(BEATS, a_day, strict=True):
            totals[beat] += size * days * GPUS
        rows.append((tier, *map(_size, a_day), f"{days}", *(_size(size * days * GPUS) for size in a_day)))
    rows.append(("all", "", "", "", *map(_size, totals.values())))
    head = ("tier", *(f"a GPU-day, every {beat} s" for beat in BEATS), "days kept")
    return _table((*head, *(f"the fleet, every {beat} s" for beat in BEATS)), rows)


def object_store(measured: Measured) -> str:
    """Return the table of an object store's requests and money a month."""
    rows = []
    for beat in BEATS:
        held = sum(
            bytes_per_gpu_day(measured, tier, beat) * _kept_days(tier) * GPUS for tier in ("raw", "minutes", "hours")
        )
        puts = files_per_hour(measured, beat, 60) * 24 * 30 * 1.1  # and those that merging and compaction write
        gets = puts * 4  # each file is read by the roll-up, by merging and compaction, and by the analyzer
        rows.append(
            (
                f"{beat} s",
                _size(held),
                f"${held / 1e9 * S3_GB_MONTH:,.0f}",
                f"{puts / 1e6:,.2f} million, ${puts * S3_PUTS:,.0f}",
                f"{gets / 1e6:,.2f} million, ${gets * S3_GETS:,.0f}",
            )
        )
    return _table(("a reading every", "held", "to hold it a month", "PUT a month", "GET a month"), rows)


def analysis(measured: Measured) -> str:
    """Return the table of the analyzer's time."""
    rows = []
    for beat in BEATS:
        samples = rows_per_second("gpu_samples", beat) * DAY
        seconds = samples / measured.analyzer_samples_per_second
        rows.append((f"{beat} s", f"{samples / 1e6:,.0f} million", f"{seconds / 60:,.0f} min", f"{seconds / DAY:.1%}"))
    ledger = f"\nThe ledger has {measured.ledger_rows_per_gpu_day:.0f} rows a GPU and day there, "
    ledger += f"{measured.ledger_rows_per_gpu_day * GPUS * 365 / 1e9:.1f} billion a year for this fleet.\n"
    return _table(("a reading every", "GPU samples a day", "to analyse a day", "of that day"), rows) + ledger


SECTIONS: dict[str, Callable[[Measured], str]] = {
    "arrival": arrival,
    "posts": posts,
    "collectors": collectors,
    "sealing": sealing,
    "storage": storage,
    "object store": object_store,
    "analysis": analysis,
}


def written(text: str, measured: Measured) -> str:
    """Return the document with every section made anew.

    Raises:
        ValueError: the document lacks a section.
    """
    for name, make in SECTIONS.items():
        found = re.search(rf"(<!-- {name} -->\n).*?(<!-- end -->)", text, re.DOTALL)
        if not found:
            raise ValueError(f"docs/sizing.md has no section <!-- {name} -->")
        text = text[: found.start()] + found[1] + make(measured) + found[2] + text[found.end() :]
    return text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def _size(count: float) -> str:
    for scale, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count < 100 * scale else f"{count / scale:,.0f} {unit}"
    return f"{count:.0f} B"


def main() -> int:
    """Write the document anew."""
    DOCUMENT.write_text(written(DOCUMENT.read_text("utf-8"), Measured.read()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
