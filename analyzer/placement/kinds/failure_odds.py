"""What another cadence of checkpoints saves in a week: failures come when they come, and saving costs time each time.

A failure throws away what was done since the last checkpoint, a share of the interval that chance decides. So a week's
saving is a distribution: of weeks with few failures most is spent on saving alone. Drawn with a fixed seed.
"""

from random import Random

from analyzer.efficiency.checkpoints import Checkpoints
from analyzer.placement.places import Placed
from analyzer.placement.recommendation import Range

WEEK_SECONDS = 7 * 86_400
DRAWS = 2_000
SEED = 1


def week_of(known: Checkpoints, best: float | None, placed: Placed, period_us: int) -> Range | None:
    """Return the GPU-milliseconds saved a week by saving every `best` seconds; None where too little is known for it.

    Where failures are too few for a mean time between them, the one that is known of counts for the period. A quantile
    is below 0 where saving more often costs more than failures would have.
    """
    every, save = known.interval_seconds.value, known.save_seconds.value
    if every is None or best is None or save is None or placed.held_ms is None or period_us <= 0:
        return None
    gpu_seconds = placed.held_ms / 1_000 * (WEEK_SECONDS * 1_000_000 / period_us)
    runs_seconds = gpu_seconds / max(1, placed.gpus)
    between = known.mtbf_seconds.value or max(1.0, placed.held_ms / 1_000 / max(1, placed.gpus))
    overhead = gpu_seconds * save * (1 / best - 1 / every)
    each = (every - best) * placed.gpus
    random = Random(SEED)  # noqa: S311 (no secret; the same input gives the same answer)
    drawn = sorted(each * _lost(random, runs_seconds / between) - overhead for _ in range(DRAWS))
    p5, p20, p50, p80, p95 = (round(1_000 * drawn[DRAWS * share // 100]) for share in (5, 20, 50, 80, 95))
    return Range(p20, p50, p80, p5, p95)


def _lost(random: Random, failures: float) -> float:
    """Return what all failures of a week throw away, in intervals: each a share of one, their number by Poisson."""
    lost, moment = 0.0, random.expovariate(1.0)
    while moment < failures:
        lost += random.random()
        moment += random.expovariate(1.0)
    return lost
