"""Read what each GPU of each service did in one chunk: there, still, and idle without a request."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.ledger.causes.serving.idle import Span, idle_spans, overlap_ms
from analyzer.ledger.causes.serving.policy import Policy
from analyzer.ledger.pending import MARGIN_US, Chunk
from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import statements
from collector.store.session import Session

_QUIET = """
SELECT u.uuid, q.from_ms, q.until_ms FROM quiet q JOIN units u USING (uid)
WHERE q.uid IN (SELECT h.uid FROM holds h JOIN service_runs r USING (rid)) ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class ReplicaTime:
    """One GPU of a run in one window. `place` is its number among those that the run had in it."""

    run_id: str
    gpu_uuid: str
    member: str | None
    place: int
    from_ms: int
    until_ms: int
    ms: int
    still_ms: int
    idle_ms: int

    def replica_by(self, policy: Policy) -> str:
        """Return which replica of its run the GPU belongs to."""
        if policy.gpus_per_replica is not None:
            return f"{self.place // policy.gpus_per_replica:06}"
        return self.member or ""


def replica_times(session: Session, chunk: Chunk, limits: Thresholds) -> dict[tuple[str, int], list[ReplicaTime]]:
    """Return the GPUs of all services, by run and window."""
    (select,) = statements("ledger/serving/replicas.sql")
    rows = session.rows(select)
    idle = _idle(session, chunk, {(run, gpu) for run, _, _, gpu, *_ in rows}, limits)
    found: dict[tuple[str, int], list[ReplicaTime]] = defaultdict(list)
    for run, window_ms, _, gpu, member, from_ms, until_ms, ms, still_ms in rows:
        idle_ms = overlap_ms(idle.get((run, gpu), ()), from_ms, until_ms)
        there = found[run, window_ms]  # in the order of the rows: by node and GPU
        there.append(ReplicaTime(run, gpu, member, len(there), from_ms, until_ms, ms, still_ms, min(idle_ms, still_ms)))
    return found


def _idle(
    session: Session, chunk: Chunk, pairs: set[tuple[str, str]], limits: Thresholds
) -> dict[tuple[str, str], list[Span]]:
    """Return by run and GPU when the run answered nothing and the GPU did nothing."""
    (select,) = statements("ledger/serving/silences.sql")
    silent: dict[str, list[Span]] = defaultdict(list)
    for run, from_ms, until_ms in session.rows(
        select,
        {
            "from_us": chunk.from_ms * 1000 - MARGIN_US,
            "until_us": chunk.until_ms * 1000 + MARGIN_US,
            "gap_ms": limits.read_gap_ms,
            "abandoned_ms": limits.abandoned_ms,
        },
    ):
        silent[run].append((from_ms, until_ms))
    quiet: dict[str, list[Span]] = defaultdict(list)
    for gpu, from_ms, until_ms in session.rows(_QUIET):
        quiet[gpu].append((from_ms, until_ms))
    return {
        (run, gpu): idle_spans(silent.get(run, ()), [quiet.get(gpu, ())], limits.abandoned_ms) for run, gpu in pairs
    }
