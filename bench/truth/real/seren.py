"""Whether the simulated fleet looks like a real one: its GPUs beside the distributions of Acme's cluster Seren.

Seren is a cluster of A100s for developing language models (Acme, NSDI'24). Its curves are over all of its GPUs, idle
ones included, sampled every 15 s. The demo is 192 GPUs of mixed use; three groups of it are compared:

- serving and pretraining: held by runs of these two stages, which are what the two archetypes must look like;
- language models: held by pretraining, fine-tuning, alignment, evaluation and serving: what Seren is used for, but that
  no service of it is described;
- the whole fleet, free GPUs included, as Seren's curves have them.

The bands were set before the first comparison. Medians of utilization: Acme's two clusters report 97 and 99 %, two
points apart; the demo gets twice that. Shares of samples: how full a cluster is, is its operator's matter and not an
archetype's; 15 points of a hundred is what we ask. Memory likewise, since it follows the models' sizes. A distance of
Kolmogorov and Smirnov of 0.25 says that no share below any value is off by more than a quarter. The distance of busy
time alone (over 10 %) was added after the first comparison and has no bar: held GPUs lack Seren's free ones.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from analyzer.stages.words import RunNames, said
from bench.truth.real.checks import Check, at_most, within
from bench.truth.real.files import SerenCurve

if TYPE_CHECKING:
    from collector.store.session import Session

LOW_PERCENT = 10.0  # the published point of the curve
MEDIAN_ROOM, SHARE_ROOM, DISTANCE = 4.0, 15.0, 0.25
GROUPS: dict[str, frozenset[str] | None] = {
    "serving and pretraining": frozenset({"serving", "pretraining"}),
    "language models": frozenset({"serving", "pretraining", "fine-tuning", "alignment", "evaluation"}),
    "the whole fleet": None,
}

_ALL = """
SELECT round(100 * utilization_ratio)::BIGINT AS percent,
    round(1000 * memory_used_bytes / memory_bytes)::BIGINT AS part, sum(s.ended_at - s.started_at)::BIGINT
FROM gpu_samples s
JOIN (SELECT gpu_uuid, max(memory_bytes) AS memory_bytes FROM inventory GROUP BY ALL) USING (gpu_uuid)
WHERE up AND percent IS NOT NULL AND part IS NOT NULL
"""
_HELD = """
    AND EXISTS (SELECT 1 FROM allocations a JOIN of_group USING (run_id) WHERE a.gpu_uuid = s.gpu_uuid
        AND a.started_at <= s.started_at AND coalesce(a.ended_at, 9223372036854775807) >= s.ended_at)
"""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in ascending order, each with the share at or below it."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def weighed(cls, amounts: dict[float, int]) -> "Distribution":
        """Return the distribution of values that were seen for so long."""
        values, whole = tuple(sorted(amounts)), sum(amounts.values())
        return cls(values, tuple(upto / whole for upto in accumulate(amounts[value] for value in values)))

    @classmethod
    def published(cls, curve: SerenCurve) -> "Distribution":
        """Return a published curve."""
        return cls(curve.values, tuple(percent / 100 for percent in curve.percents))

    def above(self, value: float) -> "Distribution":
        """Return the distribution of what is above a value alone."""
        below = self.at_or_below(value)
        rest = [
            (seen, (upto - below) / (1 - below))
            for seen, upto in zip(self.values, self.shares, strict=True)
            if seen > value
        ]
        return Distribution(tuple(seen for seen, _ in rest), tuple(share for _, share in rest))

    def at_or_below(self, value: float) -> float:
        """Return the share at or below a value."""
        return max((share for seen, share in zip(self.values, self.shares, strict=True) if seen <= value), default=0.0)

    def quantile(self, share: float) -> float:
        """Return the least value at or below which this share lies."""
        return next(seen for seen, upto in zip(self.values, self.shares, strict=True) if upto >= min(share, 1.0))


def distance(first: Distribution, second: Distribution) -> float:
    """Return the distance of Kolmogorov and Smirnov: the most that the two curves are apart."""
    points = {*first.values, *second.values}
    return max(abs(first.at_or_below(point) - second.at_or_below(point)) for point in points)


def gpu_distributions(session: "Session", stages: frozenset[str] | None) -> tuple[Distribution, Distribution]:
    """Return utilization and used memory, in percent, of GPUs held by runs of these stages (None: of all GPUs).

    A sample counts for as long as it covers; one that a run holds only in part is left out.
    """
    session.execute("CREATE OR REPLACE TEMP TABLE of_group (run_id VARCHAR)")
    runs = [] if stages is None else sorted(_runs(session, stages))
    session.load("of_group", ("run_id",), [(run,) for run in runs])
    rows = session.rows((_ALL if stages is None else _ALL + _HELD) + " GROUP BY ALL")
    used: dict[float, int] = {}
    memory: dict[float, int] = {}
    for percent, permille, length in rows:
        used[float(percent)] = used.get(float(percent), 0) + length
        memory[permille / 10] = memory.get(permille / 10, 0) + length
    return Distribution.weighed(used), Distribution.weighed(memory)


def link_idle_share(session: "Session") -> float | None:
    """Return the share of time in which a host's RDMA ports sent nothing at all, in percent."""
    (idle, whole) = session.row(
        """
        SELECT sum(ended_at - started_at) FILTER (transmit_bytes = 0)::BIGINT, sum(ended_at - started_at)::BIGINT
        FROM network_samples WHERE link_kind <> 'ethernet' AND transmit_bytes IS NOT NULL
        """
    )
    return 100 * (idle or 0) / whole if whole else None


def score(session: "Session", curves: dict[str, SerenCurve]) -> tuple[dict[str, object], list[Check]]:
    """Return the figures of each group beside the published ones, and the checks."""
    used, memory = (Distribution.published(curves[name]) for name in ("gpu_util_pct", "gpu_mem_used_pct"))
    published = _figures(used, memory)
    idle, demo_idle = 100 * Distribution.published(curves["ib_send_raw"]).at_or_below(0), link_idle_share(session)
    figures: dict[str, object] = {"Seren": published | {"link_idle_percent": round(idle, 2)}}
    checks = [within("RDMA ports that send nothing, % of time", demo_idle, round(idle, 1), SHARE_ROOM, " points")]
    for group, stages in GROUPS.items():
        here_used, here_memory = gpu_distributions(session, stages)
        own = _figures(here_used, here_memory)
        own |= {"utilization_distance": distance(here_used, used), "memory_distance": distance(here_memory, memory)}
        own["busy_utilization_distance"] = distance(here_used.above(LOW_PERCENT), used.above(LOW_PERCENT))
        figures[group] = {name: round(value, 4) for name, value in own.items()}
        checks += _checks(group, own, published)
    figures["the whole fleet"] |= {"link_idle_percent": demo_idle and round(demo_idle, 2)}  # type: ignore[operator]
    return figures, checks


def _checks(group: str, own: dict[str, float], published: dict[str, float]) -> list[Check]:
    named = (
        ("utilization, median %", "utilization_median", MEDIAN_ROOM),
        ("samples at or under 10 %, %", "utilization_low_percent", SHARE_ROOM),
        ("memory, median %", "memory_median", SHARE_ROOM),
    )
    checks = [within(f"{group}: {name}", own[key], round(published[key], 1), room) for name, key, room in named]
    return checks + [
        at_most(f"{group}: {name}, distance of the curves", own[f"{name}_distance"], DISTANCE)
        for name in ("utilization", "memory")
    ]


def _figures(used: Distribution, memory: Distribution) -> dict[str, float]:
    return {
        "utilization_median": used.quantile(0.5),
        "utilization_low_percent": 100 * used.at_or_below(LOW_PERCENT),
        "memory_p25": memory.quantile(0.25),
        "memory_median": memory.quantile(0.5),
        "memory_p75": memory.quantile(0.75),
    }


def _runs(session: "Session", stages: frozenset[str]) -> set[str]:
    rows = session.rows(
        """
        SELECT a.run_id, any_value(a.name), any_value(a.queue), any_value(a.labels),
            a.run_id IN (SELECT run_id FROM service_samples)
        FROM allocations a GROUP BY a.run_id
        """
    )
    told = {run: said(RunNames(*named)) for run, *named in rows}
    return {run for run, stage in told.items() if stage is not None and stage.word in stages}
