"""The GPUs of each host as the store knows them, and which of them were at work between which edges."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from collector.importing.claims import Claim, Ground
from collector.importing.placing import END_OF_TIME, Gpu, Work, edges

if TYPE_CHECKING:
    from collector.store.session import Session

# Work that counts as a sign of who holds a GPU: long enough that no reading on the edge of a job can feign it.
_LEAST_WORK_US = 90_000_000
_LEAST_SAMPLES = 3
# A process that does nothing still holds memory: a context alone takes 300 to 500 MB. What a GPU never falls below is
# no sign, unless it is more than any driver keeps for itself.
_CONTEXT_BYTES = 200_000_000
_DRIVER_BYTES = 2_000_000_000

_GPUS = """
WITH every AS (
    SELECT node, gpu_uuid, parent_uuid, gpu_index, NULL AS first_at, NULL AS last_at
    FROM inventory WHERE gpu_uuid IS NOT NULL
    UNION ALL
    SELECT node, gpu_uuid, parent_uuid, NULL, min(started_at), max(ended_at) FROM gpu_samples GROUP BY ALL
)
SELECT node, gpu_uuid, max(gpu_index), coalesce(min(first_at), 0), coalesce(max(last_at), $end),
    count(parent_uuid) > 0 AS is_part
FROM every GROUP BY node, gpu_uuid ORDER BY node, max(gpu_index) NULLS LAST, gpu_uuid
"""

_WORK = """
WITH watched AS (
    SELECT node, gpu_uuid, started_at, ended_at, memory_used_bytes AS memory,
        greatest(coalesce(utilization_ratio, 0), coalesce(sm_active_ratio, 0)) AS activity
    FROM gpu_samples
    WHERE started_at >= $from_us AND started_at < $until_us AND node IN (SELECT node FROM claim_edges)
), floors AS (
    SELECT gpu_uuid, least(min(memory), $driver) + $context AS held FROM watched GROUP BY gpu_uuid
)
SELECT w.node, w.gpu_uuid, e.from_us, sum(w.ended_at - w.started_at)::BIGINT AS lasted
FROM watched w ASOF JOIN claim_edges e ON e.node = w.node AND e.from_us <= w.started_at
JOIN floors f USING (gpu_uuid)
WHERE w.ended_at <= e.until_us AND (w.activity > 0.01 OR w.memory > f.held)
GROUP BY ALL HAVING lasted >= $least AND count(*) >= $samples
"""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The GPUs of each host, in the driver's order. Hosts that partition GPUs (MIG) are named, and have none here."""

    gpus: Mapping[str, Sequence[Gpu]] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # by the driver's number
    partitioned: frozenset[str] = frozenset()
    _full: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, session: "Session") -> "Hosts":
        """Return what the store knows."""
        found: dict[str, list[Gpu]] = defaultdict(list)
        numbers: dict[str, dict[int, str]] = defaultdict(dict)
        partitioned: set[str] = set()
        for node, uuid, number, first_at, last_at, is_part in session.rows(_GPUS, {"end": END_OF_TIME}):
            if is_part:
                partitioned.add(node)
                continue
            found[node].append(Gpu(uuid, first_at, last_at))
            if number is not None:
                numbers[node][number] = uuid
        short = {node.split(".", 1)[0]: node for node in (*found, *partitioned)}
        whole = {node: gpus for node, gpus in found.items() if node not in partitioned}
        return cls(whole, numbers, frozenset(partitioned), short)

    def name(self, node: str) -> str:
        """Return a host's name as the telemetry has it, which may be short here and long there."""
        if node in self.gpus or node in self.partitioned:
            return node
        return self._full.get(node.split(".", 1)[0], node)

    def numbered(self, node: str, numbers: Iterable[int]) -> tuple[tuple[str, Ground], ...]:
        """Return the GPUs of a host that these numbers name; none where one of them is not known."""
        found = [self.numbers.get(node, {}).get(number) for number in numbers]
        return () if None in found else tuple((str(uuid), "told") for uuid in found)


def work_of(session: "Session", claims: Mapping[str, Sequence[Claim]], hosts: Hosts) -> dict[str, list[Work]]:
    """Return which GPUs were at work, host by host, between the edges of the claims on it.

    Hosts on which every claim takes all, or is named, are not asked for.
    """
    spans = [span for node, listed in claims.items() if _is_open(listed, hosts, node) for span in _spans(node, listed)]
    if not spans:
        return {}
    session.execute("CREATE OR REPLACE TEMP TABLE claim_edges (node VARCHAR, from_us BIGINT, until_us BIGINT)")
    session.load("claim_edges", ("node", "from_us", "until_us"), spans)
    bounds = {"from_us": min(span[1] for span in spans), "until_us": max(span[2] for span in spans)}
    limits = {"driver": _DRIVER_BYTES, "context": _CONTEXT_BYTES, "least": _LEAST_WORK_US, "samples": _LEAST_SAMPLES}
    found: dict[str, list[Work]] = defaultdict(list)
    for node, uuid, at, lasted in session.rows(_WORK, {**bounds, **limits}):
        found[node].append(Work(uuid, at, lasted))
    session.execute("DROP TABLE claim_edges")
    return found


def _is_open(claims: Iterable[Claim], hosts: Hosts, node: str) -> bool:
    count = len(hosts.gpus.get(node, ()))
    return any(len(claim.named) < claim.gpus < count for claim in claims)


def _spans(node: str, claims: Iterable[Claim]) -> list[tuple[str, int, int]]:
    return [(node, start, end) for start, end in pairwise(edges(claims))]
