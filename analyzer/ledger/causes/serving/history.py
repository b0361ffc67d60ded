"""What a service did around the hours that are judged: from windows that were kept, never from samples that expire."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS
from analyzer.ledger.causes.serving.idle import Span
from analyzer.ledger.causes.serving.policy import Policy
from analyzer.ledger.causes.serving.traffic import Use, replicas_of

if TYPE_CHECKING:
    from collector.store.session import Session

_USES = """
SELECT window_start // 1000, (counts->>'$.ms')::BIGINT, (counts->>'$.gpus')::BIGINT, (counts->>'$.still')::BIGINT,
    (counts->>'$.members')::BIGINT, (counts->>'$.requests')::BIGINT, (counts->>'$.requests_ms')::BIGINT
FROM run_windows WHERE run_id IN (SELECT unnest(?)) AND window_start >= ? AND window_start < ?
ORDER BY window_start, run_id
"""

_HELD = """
SELECT DISTINCT run_id, h.from_ms, h.until_ms FROM holds h JOIN run_keys USING (rid)
WHERE run_id IN (SELECT unnest(?)) AND h.until_ms > h.from_ms ORDER BY ALL
"""


def kept_uses(
    session: "Session", run_ids: Sequence[str], from_ms: int, until_ms: int, policy: Policy
) -> dict[int, list[Use]]:
    """Return by window what these runs are known to have done in [from_ms, until_ms) and the look-back before it."""
    found: dict[int, list[Use]] = defaultdict(list)
    first_ms = from_ms - policy.look_back_hours * HOUR_MS
    for at, ms, gpus, still, members, requests, requests_ms in session.rows(
        _USES, [list(run_ids), first_ms * 1000, until_ms * 1000]
    ):
        found[at].append(Use(ms, gpus, still, replicas_of(gpus, members, policy), requests, requests_ms))
    return found


def held_spans(session: "Session", run_ids: Sequence[str]) -> dict[str, list[Span]]:
    """Return by run the spans in which it held a GPU, of all time."""
    found: dict[str, list[Span]] = defaultdict(list)
    for run_id, from_ms, until_ms in session.rows(_HELD, [list(run_ids)]):
        found[run_id].append((from_ms, until_ms))
    return dict(found)
