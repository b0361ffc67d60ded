"""A ledger of any size, written by SQL: GPUs of two kinds in hours, held by runs of 8 to 64 for two days each.

Every GPU-hour has three rows (working, input starvation, and one of five other states), each run a name, a team, a
stage and a cost centre; one GPU in five is free. What services say that they did is there as well, and by what the runs
were judged. The milliseconds of an hour sum to it, and costs to the price; what the states are is drawn from the
numbers of GPU and hour.
"""

from dataclasses import dataclass
from pathlib import Path

from collector.store.database import Store

HOUR = 3_600_000_000
MONDAY = 1_794_178_800_000_000  # Mon 9 Nov 2026 00:00 in Berlin
WEEK_HOURS = 168
TEAMS = 12
NAMES = 300

_RUNS = """
INSERT INTO runs (run_id, name, team, cost_centre, project, stage, submitted_at, started_at, ended_at, gpus, nodes, sku,
    attempts, exit_status)
SELECT 'slurm/big/' || r, 'job-' || (r % $names), 'team-' || (r % $teams), (4000 + r % $teams)::VARCHAR,
    'project-' || (r % 40), ['pretraining', 'fine-tuning', 'evaluation', 'serving'][1 + r % 4],
    started - 1800000000, started, started + 48 * $hour, 8, 1,
    CASE WHEN gpu < $gpus * 2 // 3 THEN 'H100-80GB' ELSE 'A100-80GB' END, 1, 'completed'
FROM (
    SELECT DISTINCT (n // 8) * 10000 + h // 48 AS r, n // 8 * 8 AS gpu, $start + h // 48 * 48 * $hour AS started
    FROM range(0, $gpus, 8) a(n), range(0, $hours, 48) b(h) WHERE n // 8 % 5 <> 0
)
"""
_LEDGER = """
INSERT INTO ledger (hour, gpu_uuid, node, sku, purchase_option, run_id, attempt, state, cause, caused_by, confidence,
    shared, milliseconds, cost_micros, rules_version, price_version)
WITH hours AS (
    SELECT n, h, n // 8 % 5 = 0 AS free, CASE WHEN n < $gpus * 2 // 3 THEN 'H100-80GB' ELSE 'A100-80GB' END AS sku,
        CASE WHEN n < $gpus * 2 // 3 THEN 2600000 ELSE 1100000 END AS rate
    FROM range(0, $gpus) a(n), range($first, $last) b(h)
), parts AS (
    SELECT *, unnest([0, 1, 2]) AS part FROM hours WHERE NOT free
    UNION ALL SELECT *, 3 FROM hours WHERE free
)
SELECT $start + h * $hour, 'GPU-' || n, 'n' || n // 8, sku,
    CASE WHEN sku = 'H100-80GB' THEN 'reserved' ELSE 'owned' END,
    CASE WHEN NOT free THEN 'slurm/big/' || (n // 8 * 10000 + h // 48) END, 1,
    CASE part WHEN 0 THEN 'productive' WHEN 1 THEN 'starved' WHEN 3 THEN 'unallocated'
        ELSE ['held_idle', 'communicating', 'checkpointing', 'unexplained', 'throttled'][1 + (n // 8 + h // 48) % 5]
    END,
    CASE part WHEN 0 THEN 'compute' WHEN 1 THEN 'preprocessing' WHEN 3 THEN 'free'
        ELSE ['abandoned', 'collective', 'storage', NULL, 'power'][1 + (n // 8 + h // 48) % 5] END,
    NULL, 'high', false,
    CASE part WHEN 0 THEN 2520000 WHEN 1 THEN 720000 WHEN 2 THEN 360000 ELSE 3600000 END,
    rate * CASE part WHEN 0 THEN 70 WHEN 1 THEN 20 WHEN 2 THEN 10 ELSE 100 END // 100,
    'bench', 'bench'
FROM parts
"""
_HOURS = """
INSERT INTO ledger_hours SELECT $start + h * $hour, 'closed', '', 'bench', 'bench' FROM range(0, $hours) a(h)
"""
_REACHED = "INSERT INTO analysed_until SELECT $start + $hours * $hour"
_DOINGS = """
INSERT INTO run_doings (run_id, hour, measured_ms, sm_ms, busy_ms, office_busy_ms, activity_ms, pauses, phase_minutes,
    memory_minutes, tensor_minutes, turns, windows, exchange_windows)
SELECT 'slurm/big/' || (n // 8 * 10000 + h // 48), $start + h * $hour, 8 * 3600000,
    CASE WHEN n < $gpus * 2 // 3 THEN 8 * 3600000 ELSE 0 END, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM range(0, $gpus, 8) a(n), range(0, $hours) b(h) WHERE n // 8 % 5 <> 0
"""
_OWNED = """
INSERT INTO ownership (node, gpu_uuid, owned_from, sku, purchase_option, source, batch)
SELECT 'n' || n // 8, 'GPU-' || n, $start,
    CASE WHEN n < $gpus * 2 // 3 THEN 'H100-80GB' ELSE 'A100-80GB' END,
    CASE WHEN n < $gpus * 2 // 3 THEN 'reserved' ELSE 'owned' END, 'bench', 1 FROM range(0, $gpus) a(n)
"""
_SAID = """
INSERT INTO service_samples (node, started_at, ended_at, run_id, requests, tokens_out, batch)
SELECT 'n' || n // 8, $start + h * $hour, $start + (h + 1) * $hour, 'slurm/big/' || (n // 8 * 10000 + h // 48),
    100000 + h % 24 * 1000, 50000000, 1
FROM range(0, $gpus, 8) a(n), range(0, $hours) b(h)
WHERE n // 8 % 5 <> 0 AND (n // 8 * 10000 + h // 48) % 4 = 3
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How many GPUs, and for how many weeks that end with that of 9 November 2026."""

    gpus: int
    weeks: int

    @property
    def start(self) -> int:
        """The first hour."""
        return MONDAY - (self.weeks - 1) * WEEK_HOURS * HOUR

    @property
    def end(self) -> int:
        """The end of the last hour."""
        return MONDAY + WEEK_HOURS * HOUR


def write(path: Path, size: Size, memory_limit: str = "2GB") -> int:
    """Write the store; return how many rows the ledger has."""
    hours = size.weeks * WEEK_HOURS
    about: dict[str, object] = {
        "start": size.start, "hour": HOUR, "hours": hours, "gpus": size.gpus, "names": NAMES, "teams": TEAMS,
    }  # fmt: skip
    with Store.open(path, memory_limit=memory_limit) as store, store.session() as session:
        for statement in (_RUNS, _HOURS, _REACHED, _DOINGS, _OWNED, _SAID):
            session.execute(statement, {name: value for name, value in about.items() if f"${name}" in statement})
        for first in range(0, hours, 24):
            span = about | {"first": first, "last": min(hours, first + 24)}
            session.execute(_LEDGER, {name: value for name, value in span.items() if f"${name}" in _LEDGER})
        (rows,) = session.row("SELECT count(*) FROM ledger")
    return int(rows)
