"""A fleet's week in a store and, the same samples, in VictoriaMetrics: made by the database, and so in minutes."""

import hashlib
import json
import urllib.request
from dataclasses import dataclass

from agent.wire.tables import GPU_SAMPLES
from agent.wire.units import HOUR_US
from analyzer.states import BOOKINGS
from bench.tsdb_servers import VictoriaMetrics
from collector.store.database import Store
from collector.store.session import Session

SECOND_US = 1_000_000
DAY_US = 24 * HOUR_US
MONDAY_US = 1_793_577_600 * SECOND_US  # 2026-11-02 00:00 UTC
COLUMNS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "power_watts",
    "memory_used_bytes",
    "pcie_receive_bytes",
)
PER_HOST = 8
LEDGER = "ledger_seconds"


@dataclass(frozen=True, slots=True)
class Week:
    """How large it is."""

    gpus: int
    days: int
    every_seconds: int

    @property
    def until_us(self) -> int:
        """Its last microsecond, exclusive."""
        return MONDAY_US + self.days * DAY_US

    def run(self) -> tuple[list[str], str]:
        """Return the GPUs of one run, and their host."""
        return [f"GPU-{_uuid(number)}" for number in range(PER_HOST)], "n000"


def _uuid(number: int) -> str:
    """Return what md5 makes of a number in the database too."""
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def fill(store: Store, week: Week) -> int:
    """Put every day's samples into the lake, six hours a file, and return how many rows there are."""
    steps = 6 * 3600 // week.every_seconds
    with store.session() as session:
        for part in range(week.days * 4):
            start = MONDAY_US + part * 6 * HOUR_US
            session.execute(f"INSERT INTO lake.main.gpu_samples BY NAME {_samples(week, start, steps, part + 1)}")
            session.execute(
                f"INSERT INTO lake.main.receipts VALUES ({(part + 1) << 8}, 'b', 'b', {part}, '', 0, 0, 2, 0)"
            )
        _allocate(session, week)
        (rows,) = session.row("SELECT count(*) FROM gpu_samples")
    return int(rows)


def _samples(week: Week, start: int, steps: int, batch: int) -> str:
    """Return a query for samples that move as real ones do: busy for hours, quiet for hours, noise upon both."""
    noise = f"(hash(g * 1000003 + i + {batch}) % 1000) / 1000.0"
    busy = f"(hash(g // 8 * 31 + {batch}) % 4 > 0)"
    told = {
        "utilization_ratio": f"round(if({busy}, 0.9 + 0.1 * n, 0.02 * n), 2)",
        "sm_active_ratio": f"round(if({busy}, 0.6 + 0.2 * n, 0.01 * n), 4)",
        "tensor_active_ratio": f"round(if({busy}, 0.3 + 0.2 * n, 0), 4)",
        "power_watts": f"round(if({busy}, 550 + 120 * n, 70 + 5 * n), 1)",
        "memory_used_bytes": f"(if({busy}, 64e9, 1e9) + (hash(i // 60) % 8) * 1e8)::BIGINT",
        "pcie_receive_bytes": f"(if({busy}, 2e9 * n, 0))::BIGINT",
        "temperature_celsius": f"round(if({busy}, 60 + 8 * n, 35), 0)",
        "sm_clock_hertz": f"if({busy}, 1.98e9 - 1.5e7 * (hash(i) % 8), 3.45e8)",
        "energy_joules": f"round(if({busy}, 6000 * n, 700), 3)",
        "up": "true",
    }
    rest = {
        column.name: f"round({noise}, 3)"
        for column in GPU_SAMPLES.columns
        if column.name not in told and column.kind == "gauge" and column.unit == "ratio"
    }
    columns = ", ".join(f"{sql} AS {name}" for name, sql in (told | rest).items())
    every = week.every_seconds * SECOND_US
    return f"""
        SELECT printf('n%03d', g // {PER_HOST}) AS node, 'GPU-' || md5(g::VARCHAR) AS gpu_uuid,
            {start} + i * {every} AS started_at, {start} + (i + 1) * {every} AS ended_at, {columns},
            {batch << 8} AS batch
        FROM (SELECT g, i, {noise} AS n FROM range({week.gpus}) a(g), range({steps}) b(i))
        ORDER BY node, gpu_uuid, started_at
    """


def _allocate(session: Session, week: Week) -> None:
    gpus, node = week.run()
    for gpu in gpus:
        session.execute(
            "INSERT INTO lake.main.allocations (node, run_id, gpu_uuid, started_at, batch) "
            "VALUES (?, 'slurm/b/1', ?, ?, 256)",
            [node, gpu, MONDAY_US],
        )


def book(store: Store, week: Week) -> int:
    """Fill the ledger with a week of every GPU, four rows an hour, and return how many there are."""
    states = ", ".join(f"('{b.state}', {_quoted(b.cause)})" for b in BOOKINGS)
    with store.session() as session:
        session.execute(
            f"""
            INSERT INTO {store.hot}.ledger BY NAME
            WITH words AS (SELECT row_number() OVER () AS w, * FROM (VALUES {states}) v(state, cause))
            SELECT {MONDAY_US} + h * {HOUR_US} AS hour, 'GPU-' || md5(g::VARCHAR) AS gpu_uuid,
                printf('n%03d', g // {PER_HOST}) AS node, 'H100-80GB' AS sku, 'slurm/b/' || (g // 16) AS run_id,
                state, cause, false AS shared, 900000 AS milliseconds, 650000 AS cost_micros, '1' AS rules_version
            FROM range({week.gpus}) a(g), range({week.days * 24}) b(h), range(4) c(part)
            JOIN words ON w = 1 + hash(g * 7 + h * 13 + part) % (SELECT count(*) FROM words)
            ORDER BY hour, gpu_uuid
            """
        )
        (rows,) = session.row(f"SELECT count(*) FROM {store.hot}.ledger")
    return int(rows)


def _quoted(cause: str | None) -> str:
    return "NULL" if cause is None else f"'{cause}'"


def export(store: Store, week: Week, server: VictoriaMetrics) -> int:
    """Give VictoriaMetrics the same samples and ledger, and return how many values it took."""
    with store.session() as session:
        for day in range(week.days):
            span = f"started_at >= {MONDAY_US + day * DAY_US} AND started_at < {MONDAY_US + (day + 1) * DAY_US}"
            for column in COLUMNS:
                lines = session.rows(
                    f"""
                    SELECT to_json({{'metric': {{'__name__': '{column}', 'node': node, 'gpu_uuid': gpu_uuid}},
                        'values': list({column} ORDER BY started_at),
                        'timestamps': list(ended_at // 1000 ORDER BY started_at)}})::VARCHAR
                    FROM gpu_samples WHERE {span} AND {column} IS NOT NULL GROUP BY node, gpu_uuid
                    """
                )
                _post(server, "\n".join(line for (line,) in lines))
        lines = session.rows(
            f"""
            SELECT to_json({{'metric': {{'__name__': '{LEDGER}', 'gpu_uuid': gpu_uuid,
                'word': state || '/' || coalesce(cause, '')}}, 'values': list(s ORDER BY hour),
                'timestamps': list(hour // 1000 ORDER BY hour)}})::VARCHAR
            FROM (SELECT gpu_uuid, state, cause, hour, sum(milliseconds) / 1000 AS s
                FROM {store.hot}.ledger GROUP BY ALL)
            GROUP BY gpu_uuid, state, cause
            """
        )
        _post(server, "\n".join(line for (line,) in lines))
    return server.values()


def _post(server: VictoriaMetrics, lines: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/api/v1/import", data=lines.encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        answer.read()


def asked(server: VictoriaMetrics, path: str) -> int:
    """Ask VictoriaMetrics and return how many series it answered with."""
    return len(json.loads(server.ask(path))["data"]["result"])
