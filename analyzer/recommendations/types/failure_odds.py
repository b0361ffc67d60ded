"""What another cadence of checkpoints saves: failures come when they come, and saving costs time each time.

A failure throws away what was done since the last checkpoint, a share of the interval that chance decides. So a week's
saving is a distribution: of weeks with few failures most is spent on saving alone. Drawn with a fixed seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from analyzer.measures.efficiency.checkpoints import Checkpoints
from analyzer.recommendations.recommendation import Range
from analyzer.recommendations.saving import told_over_us
from analyzer.recommendations.site import Placed

_DRAWS = 2_000
_SEED = 1


@dataclass(frozen=True, slots=True)
class _Odds:
    """One run in the span: how many failures are expected, what they throw away less each, what saving costs more.

    Of one failure it is GPU-seconds in the whole interval, of which chance takes a share.
    """

    failures: float
    each: float
    overhead: float


def week_of(runs: Sequence[tuple[Checkpoints, Placed]], best: float | None, period_us: int) -> Range | None:
    """Return the GPU-milliseconds saved by saving every `best` seconds, in the span that savings are told of, or None.

    None is where too little is known for it. Each run fails and pays for saving by itself. Where failures are too few
    for a mean time between them, the one that is known of each run counts for the period. A quantile is below 0 where
    saving more often costs more than failures would have.
    """
    known = [_odds(checkpoints, placed, best, period_us) for checkpoints, placed in runs]
    odds = [each for each in known if each is not None]
    if not odds or len(odds) < len(known):
        return None
    failures = sum(one.failures for one in odds)
    each = sum(one.failures * one.each for one in odds) / failures
    overhead = sum(one.overhead for one in odds)
    random = Random(_SEED)  # noqa: S311 (no secret; the same input gives the same answer)
    drawn = sorted(each * _lost(random, failures) - overhead for _ in range(_DRAWS))
    p5, p20, p50, p80, p95 = (round(1_000 * drawn[_DRAWS * share // 100]) for share in (5, 20, 50, 80, 95))
    return Range(p20, p50, p80, p5, p95)


def _odds(known: Checkpoints, placed: Placed, best: float | None, period_us: int) -> _Odds | None:
    every, save = known.interval_seconds.value, known.save_seconds.value
    if every is None or best is None or save is None or not placed.held_ms or period_us <= 0:
        return None
    gpu_seconds = placed.held_ms / 1_000 * (told_over_us(period_us) / period_us)
    runs_seconds = gpu_seconds / max(1, placed.gpus)
    between = known.mtbf_seconds.value or max(1.0, placed.held_ms / 1_000 / max(1, placed.gpus))
    return _Odds(runs_seconds / between, (every - best) * placed.gpus, gpu_seconds * save * (1 / best - 1 / every))


def _lost(random: Random, failures: float) -> float:
    """Return what all failures of a week throw away, in intervals: each a share of one, their number by Poisson."""
    lost, moment = 0.0, random.expovariate(1.0)
    while moment < failures:
        lost += random.random()
        moment += random.expovariate(1.0)
    return lost
