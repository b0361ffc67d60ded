"""What a change may save: the loss of a finding, scaled to a week, times the share that such changes recover.

Of less than a day nothing is said of a week: what is saved is then told of the time that was seen, and is no more than
was lost in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.wire.units import SECOND_US, WEEK_SECONDS, WEEK_US
from analyzer.recommendations.recommendation import TAIL_PERMILLE, UNTOLD, Range
from analyzer.states import Confidence

# Less than this says nothing of a week (ours): two hours would be told 84 times, and may be the only two of their kind.
SPEAKS_FOR_A_WEEK_US = 86_400 * SECOND_US
_ALL = 1000
# What is spared beyond the loss, at most (ours): a run that ends sooner or never begins spares its starting too, and
# what makes steps faster also makes those faster that a failure threw away, which are booked as lost and not as slow.
BEYOND = 1050
CASES_LEAST = 20  # realised cases of one kind from which on they take an assumption's place: of fewer, P5 is the worst


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a loss that a change recovers, in permille: careful (P20), likely (P50), lucky (P80), and the tails.

    Tails that are left out follow as those of a Range do. `source` is where the numbers are from. A share that is
    neither `computed` from what was measured nor borne out by realised `cases` is an assumption, and lowers confidence.
    """

    p20: int
    p50: int
    p80: int
    p5: int = UNTOLD
    p95: int = UNTOLD
    source: str = "ours"
    computed: bool = False
    cases: int = 0

    def __post_init__(self) -> None:
        if self.p5 == UNTOLD:
            object.__setattr__(self, "p5", max(0, self.p50 - (self.p50 - self.p20) * TAIL_PERMILLE // 1000))
        if self.p95 == UNTOLD:
            object.__setattr__(
                self, "p95", min(max(_ALL, self.p80), self.p50 + (self.p80 - self.p50) * TAIL_PERMILLE // 1000)
            )

    @property
    def assumed(self) -> bool:
        """Whether nothing but judgement stands behind it yet."""
        return not self.computed and self.cases < CASES_LEAST


_SIMULATED = "the simulated site's physics, seeds 101 to 150"  # bench/results/savings_shares.json

# None of these is measured on the site that reads them: realised savings take their place (calibrated()).
ASSUMED = {
    # One more of what was measured to be the limit. That a small edit helps: 84.99% of 706 issues of jobs at half
    # utilization or less (Gao et al., ICSE 2024). How much of the loss it gives back is ours.
    "setting": Share(700, 850, 950, p95=BEYOND, source="Gao et al., ICSE 2024, for the likely one; the spread is ours"),
    # Where the loader's own software is the limit: half of it in runs of minutes, whose first batches nothing hides,
    # most of it in others.
    "loader_software": Share(450, 850, 970, 400, BEYOND, source=_SIMULATED),
    "pinned": Share(900, 980, 1020, 800, BEYOND, source=_SIMULATED),
    # What is left once reading is no longer the limit is preparation: CoorDL splits the two (Mohan et al., VLDB 2021).
    # Its figures are of other models and disks, so these are ours.
    "faster_storage": Share(600, 800, 950),
    "nearer_input": Share(920, 960, 985, 850, BEYOND, source=_SIMULATED),
    "cached_input": Share(760, 900, 980, 550, BEYOND, source=_SIMULATED),
    # What is given back is no longer lost; the careful one is that somebody takes it again.
    "release": Share(870, 950, 1000, 800, BEYOND),
    "never_used": Share(950, _ALL, 1030, 900, BEYOND),
    # A seventh or a half of a GPU in place of a whole one, with peaks that want more: ours.
    "share": Share(300, 500, 650),
    # Two small trials side by side slow each other down: each GPU given back costs some of the other's time.
    "packed": Share(270, 310, 450, 200, 600, source=_SIMULATED),
    # Half the interval is half the work that a failure takes (Young, CACM 1974), less the time that saving takes: ours.
    "checkpoint_more": Share(300, 500, 700, source="Young, CACM 1974, for the likely one; the spread is ours"),
    # A host is looked at and brakes less, or no more: ours. What was lost in it is measured to some per cent.
    "repair": Share(500, 800, _ALL, p95=BEYOND),
    # A host that is out holds up nobody. The careful ones are that the next slowest is slow as well: ours.
    "taken_out": Share(
        800, _ALL, BEYOND, 500, BEYOND, source="first principles, for the likely one; the spread is ours"
    ),
}


def calibrated(kind: str, share: Share, realised: Mapping[str, Share]) -> Share:
    """Return the share of a kind of change that realised savings show, where there are enough of them; else `share`."""
    shown = realised.get(kind)
    return shown if shown is not None and shown.cases >= CASES_LEAST else share


def realised_share(quantiles: Mapping[str, int], cases: int) -> Share:
    """Return the share that so many realised cases of a kind show: its quantiles in permille, by name (p5 to p95)."""
    p5, p20, p50, p80, p95 = (quantiles[name] for name in ("p5", "p20", "p50", "p80", "p95"))
    return Share(p20, p50, p80, p5, p95, source=f"{cases} realised cases", cases=cases)


def sureness(found: Confidence, share: Share | None) -> tuple[Confidence, str]:
    """Return how sure a saving is, and why: as its finding, one less where the share is an assumption.

    `share` is None where the change says its amount by itself, from what was measured.
    """
    if share is None or share.computed:
        return found, f"the loss is of {found} confidence, and what it saves is computed from it"
    if not share.assumed:
        return found, f"the loss is of {found} confidence; the share saved is that of {share.cases} realised cases"
    lower: Confidence = "medium" if found == "high" else "low"
    cases = f"{share.cases} realised so far" if share.cases else "none realised yet"
    return lower, f"the loss is of {found} confidence; the share saved is assumed ({share.source}), {cases}"


def reordering(crossings: int, racks: int) -> Share:
    """Return what ordering ranks by rack recovers: the ring then crosses once a rack.

    Source: NCCL's rings; each crossing carries 2(N-1)/N of what is reduced, so that crossings are what is paid for.
    What is booked as lost is beyond what the same exchange takes inside a rack, and of the crossings that stay most is
    not: so the share of crossings avoided is the careful one.
    """
    avoided = _ALL * (crossings - racks) // crossings if crossings > racks else 0
    rest = _ALL - avoided if avoided else 0
    careful, likely, lucky = avoided, avoided + rest // 2, avoided + rest * 7 // 10
    most = BEYOND if avoided else 0
    return Share(careful, likely, lucky, avoided * 4 // 5, most, source="crossings of the ring", computed=True)


def share_of_loss(share: Share, of: int, whole: int) -> Share:
    """Return a share of which only a part of the loss is meant."""
    quantiles = (share.p20, share.p50, share.p80, share.p5, share.p95)
    p20, p50, p80, p5, p95 = (each * of // max(1, whole) for each in quantiles)
    return replace(share, p20=p20, p50=p50, p80=p80, p5=p5, p95=p95)


def told_over_us(period_us: int) -> int:
    """Return of which span it is told what a change saves: a week, or the period where it is too short for that."""
    return WEEK_US if period_us >= SPEAKS_FOR_A_WEEK_US else max(1, period_us)


def over_words(seconds: int) -> str:
    """Return a span of savings as people read it: "per week", "in the 2 h seen"."""
    if seconds >= WEEK_SECONDS:
        return "per week"
    return f"in the {seconds // 3600} h seen" if seconds % 3600 == 0 else f"in the {max(1, seconds // 60)} min seen"


def recovered(amount: int, period_us: int, share: Share) -> Range:
    """Return what a share of a period's loss, in milliseconds or in micros, is in the span that savings are told of."""
    told = amount * told_over_us(period_us) // max(1, period_us)
    return Range(*(told * part // _ALL for part in (share.p20, share.p50, share.p80, share.p5, share.p95)))
