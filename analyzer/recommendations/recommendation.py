"""What a recommendation is: from, to, why, what it saves, what moving costs, and the text to paste."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from agent.wire.units import SECOND_US, WEEK_SECONDS
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
        Saved | None, Field(description="Of what it saves: GPUs for other work, while the bill stays.")
    ] = None
    billed: Annotated[
        Saved | None, Field(description="Of what it saves: what the bill falls by, once GPUs are handed back.")
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
