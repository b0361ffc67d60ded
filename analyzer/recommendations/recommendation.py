"""What a recommendation is: from, to, why, what it saves, what moving costs, and the text to paste.

What a change may save is the loss of a finding, scaled to a week, times the share that such changes recover. Of less
than a day nothing is said of a week: what is saved is then told of the time that was seen, and is no more than was lost
in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from agent.wire.units import SECOND_US, WEEK_SECONDS, WEEK_US
from analyzer.ids import short_id
from analyzer.states import Confidence
from analyzer.text.as_json import WHOLE

Form = Literal["slurm", "kubernetes", "rankfile", "mig", "shell", "python", "config"]
Takes = Literal["now", "next_start"]
Cost = Literal["checkpoint_age", "reload", "queue", "restart"]
SETTING = "none: a setting, applied at the next start"
# How far the tails lie from the median where nobody says: z(0.95) / z(0.80) = 1.645 / 0.842 of a normal distribution.
TAIL_PERMILLE = 1954
UNTOLD = -1  # a tail that follows from P20, P50 and P80


@dataclass(frozen=True, slots=True)
class Artefact:
    """One text to paste. `form` says for whom: `config` is a setting of the run's own software."""

    form: Form
    text: str


def shell(text: str) -> Artefact:
    """Return commands for a shell."""
    return Artefact("shell", text)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing that was looked at; `holds` is null where it could not be known, `told` has the numbers.

    Such as Constraint("cores", True, "n14: 96 wanted, 128 there").
    """

    what: str
    holds: bool | None
    told: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds to the first token (or answer) at P99, measured before and expected after; null where not known.

    `slo_seconds` is what the service promises; `told` says what the expectation rests on.
    """

    before_seconds: float | None
    after_seconds: float | None
    slo_seconds: float | None
    told: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something is or should be: nodes in the order of ranks, and the rack of each, null where not known."""

    __pydantic_config__ = WHOLE
    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]
    gpus: int
    sku: str | None = None
    slice_: Annotated[str | None, Field(alias="slice", description="A MIG profile, such as 1g.10gb.")] = None


@dataclass(frozen=True, slots=True)
class Move:
    """What moves: `from` is null for what is not placed yet, `to` for what is given back."""

    from_: Annotated[Placement | None, Field(alias="from")]
    to: Placement | None


@dataclass(frozen=True, slots=True)
class Range:
    """A prediction of a span, mostly a week: one in five is below p20, one above p80, one in twenty beyond p5 and p95.

    The tails may be left out: they then follow from the other three, and are never below 0.
    """

    __pydantic_config__ = WHOLE
    p20: int
    p50: int
    p80: int
    p5: int = UNTOLD
    p95: int = UNTOLD

    def __post_init__(self) -> None:
        if self.p5 == UNTOLD:
            object.__setattr__(self, "p5", max(0, self.p50 - (self.p50 - self.p20) * TAIL_PERMILLE // 1000))
        if self.p95 == UNTOLD:
            object.__setattr__(self, "p95", self.p50 + (self.p80 - self.p50) * TAIL_PERMILLE // 1000)

    def part(self, of: int, whole: int) -> "Range":
        """Return `of` parts of `whole` of each quantile, rounded down."""
        return Range(*(each * of // whole for each in (self.p20, self.p50, self.p80, self.p5, self.p95)))

    def less(self, other: "Range") -> "Range":
        """Return what is left of each quantile when the same quantile of another is taken away."""
        return Range(
            self.p20 - other.p20, self.p50 - other.p50, self.p80 - other.p80, self.p5 - other.p5, self.p95 - other.p95
        )


@dataclass(frozen=True, slots=True)
class Saved:
    """GPU time in milliseconds and money in millionths, of a span; `micros` is null where no price is known."""

    milliseconds: Range
    micros: Range | None


@dataclass(frozen=True, slots=True)
class RestartPart:
    """One part of what a restart takes: `seconds` of all its GPUs. `measured` of the run itself, else assumed."""

    what: Cost
    seconds: int
    measured: bool
    told: str  # "6 min since its last checkpoint"


@dataclass(frozen=True, slots=True)
class Moving:
    """What has to be restarted for it: how many GPUs, what that takes, and when the run was last begun anew."""

    __pydantic_config__ = WHOLE
    gpus: int
    parts: tuple[RestartPart, ...]
    moved_at: Annotated[int | None, Field(description="Microseconds UTC; null: never.")] = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """For how long it can still save: the rest of the run (null: not known) and how often runs of its name come.

    `recurs` counts other runs of its name in the weeks before; `told` says what the rest was taken from.
    """

    running: bool
    remaining_seconds: int | None
    recurs: int
    told: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another change that would save the same seconds, and what it likely saves of them (P50) in the same span."""

    id: str
    kind: str
    title: str
    saves_milliseconds: int
    saves_micros: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """One concrete change of placement or allotment: whose it is, from what to what, why, and the lines to paste.

    What `ends_work` may end somebody's work before it is done: its owner is asked, and what that costs is nobody's to
    price.
    """

    kind: str  # reorder_ranks, more_cpu, local_nvme, co_locate, release, share_mig, …
    title: str  # "order the ranks by rack", as on the weekly report
    from_: Annotated[str, Field(alias="from")]
    to: str
    why: str
    artefacts: tuple[Artefact, ...]
    losers: Annotated[str, Field(description="Whom its side effects hit.")]  # "none: the cores are not allocated"
    winners: Annotated[str, Field(description="Who gains by it.")] = "the run itself"
    move: Move | None = None
    constraints: tuple[Constraint, ...] = ()
    latency: Annotated[Latency | None, Field(description="Of a service, always.")] = None
    cost_to_move: str = SETTING  # in words a person can check: "none: a setting", "one restart: 12 min of 64 GPUs, $33"
    ends_work: Annotated[
        bool, Field(description="Whether it may end somebody's work: needs the owner's consent, never a first step.")
    ] = False
    actor: str | None = None
    subject: str = ""
    team: str | None = None
    cause: str = ""
    confidence: Confidence = "medium"
    run_ids: tuple[str, ...] = ()
    finding_ids: tuple[str, ...] = ()
    notice_ids: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The subject without the count of its runs, which changes from week to week."""
        return self.subject.removesuffix(f" ({len(self.run_ids)})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(Change):
    """One concrete change, with what it saves and what moving costs: the one document of it, wherever it is read.

    What is saved is predicted, of `saves_over_seconds`: likely no more than the estimated waste, with luck a twentieth
    more.
    Only what is neither `held_back` nor `instead_of` a better one may be added up.
    """

    __pydantic_config__ = WHOLE
    id: str
    saves_milliseconds: Range  # GPU time in saves_over_seconds
    saves_micros: Annotated[Range | None, Field(description="null where no price is known.")]
    cost_to_move_milliseconds: int = 0
    cost_to_move_micros: int | None
    sure_because: str = ""
    freed: Annotated[
        Saved | None,
        Field(description="Of what it saves: GPUs for other work, while the bill stays; null as `billed` is."),
    ] = None
    billed: Annotated[
        Saved | None,
        Field(
            description="Of what it saves: what the bill falls by, once GPUs are handed back; null where nobody says "
            "how they are paid for."
        ),
    ] = None
    takes_effect: Takes = "next_start"
    moving: Annotated[Moving | None, Field(description="null where nothing has to be restarted.")] = None
    outlook: Outlook | None = None
    expires_at: Annotated[int | None, Field(description="Microseconds since 1970, UTC.")] = None
    held_back: Annotated[str | None, Field(description="Why a guard holds it back now; null: it does not.")] = None
    instead_of: Annotated[
        str | None, Field(description="The better one that would save the same seconds; null: there is none.")
    ] = None
    alternatives: Annotated[
        tuple[Alternative, ...], Field(description="The alternatives to this one, the best first.")
    ] = ()
    saves_over_seconds: Annotated[
        int,
        Field(
            description="Of which span it is told what is saved: a week, or the time that was seen where it is under a "
            "day."
        ),
    ] = WEEK_SECONDS
    artefact: Annotated[str, Field(description="The lines to paste, of all artefacts.")] = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "artefact", "\n".join(each.text for each in self.artefacts))

    @property
    def rank(self) -> tuple[int, int, str]:
        """By what they are in order: what likely saves most first."""
        return -(self.saves_micros.p50 if self.saves_micros else 0), -self.saves_milliseconds.p50, self.id

    def in_span(self, saved: Range, span_us: int) -> Range:
        """Return what it saves comes to in another span, if it goes on so: to judge by, or of the span of one run."""
        return saved.part(span_us, self.saves_over_seconds * SECOND_US)

    @property
    def stands(self) -> bool:
        """Whether it is recommended now, and may be added up with others that stand."""
        return self.held_back is None and self.instead_of is None

    @property
    def restarts(self) -> bool:
        """Whether something that runs has to be restarted for it now."""
        return self.takes_effect == "now" and self.moving is not None


def recommendation_id(subject: str, team: str | None, kind: str, cause: str) -> str:
    """Return the id of a change: the same for the same subject, whatever period it is read of."""
    return short_id("r", subject, team or "", kind, cause)


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
    return Share(p20, p50, p80, p5, p95, source=f"{cases} realized cases", cases=cases)


def sureness(found: Confidence, share: Share | None) -> tuple[Confidence, str]:
    """Return how sure a saving is, and why: as its finding, one less where the share is an assumption.

    `share` is None where the change says its amount by itself, from what was measured.
    """
    if share is None or share.computed:
        return found, f"the loss is of {found} confidence, and what it saves is computed from it"
    if not share.assumed:
        return found, f"the loss is of {found} confidence; the share saved is that of {share.cases} realized cases"
    lower: Confidence = "medium" if found == "high" else "low"
    cases = f"{share.cases} realized so far" if share.cases else "none realized yet"
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
