"""What a recommendation is: from, to, why, what it saves, what moving costs, and the text to paste."""

from dataclasses import dataclass, field
from typing import Literal

from agent.wire.units import SECOND_US, WEEK_SECONDS
from analyzer.states import Confidence

Form = Literal["slurm", "kubernetes", "rankfile", "mig", "shell", "python", "config"]


@dataclass(frozen=True, slots=True)
class Artefact:
    """One text to paste. `form` says for whom: `config` is a setting of the run's own software."""

    form: Form
    text: str


def shell(text: str) -> Artefact:
    """Return commands for a shell."""
    return Artefact("shell", text)


def python(text: str) -> Artefact:
    """Return lines of the run's own program."""
    return Artefact("python", text)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing that was looked at. `holds` is None where it could not be known; `told` has the numbers.

    Such as Constraint("cores", True, "n14: 96 wanted, 128 there").
    """

    what: str
    holds: bool | None
    told: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Time to the first token (or answer) in seconds at P99, as measured before and as expected after; None: unknown.

    `slo_seconds` is what the service promises; `told` says what the expectation rests on.
    """

    before_seconds: float | None
    after_seconds: float | None
    slo_seconds: float | None
    told: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something is or should be. Nodes are in the order of ranks; a rack is None where it is not known."""

    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]  # of each node
    gpus: int
    sku: str | None = None
    slice_: str | None = None  # a MIG profile, such as 1g.10gb


@dataclass(frozen=True, slots=True)
class Move:
    """What moves. `from_` is None for what is not placed yet, `to` for what is given back."""

    from_: Placement | None
    to: Placement | None


# How far the tails lie from the median where nobody says: z(0.95) / z(0.80) = 1.645 / 0.842 of a normal distribution.
TAIL_PERMILLE = 1954
UNTOLD = -1  # a tail that follows from P20, P50 and P80

Takes = Literal["now", "next_start"]
Cost = Literal["checkpoint_age", "reload", "queue", "restart"]


@dataclass(frozen=True, slots=True)
class Range:
    """A prediction of a span, mostly a week: one in five is below P20, one above P80, one in twenty beyond P5 and P95.

    The tails may be left out: they then follow from the other three, and are never below 0.
    """

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
    """GPU time in milliseconds and money in millionths, of a span; `micros` is None where no price is known."""

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
    """What has to be restarted for it: how many GPUs, what that takes, and when the run was last moved (or None)."""

    gpus: int
    parts: tuple[RestartPart, ...]
    moved_at: int | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """For how long it can still save: the rest of the run (None: not known) and how often runs of its name come.

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
class Recommendation:
    """One concrete change of placement or allotment. `saves_micros` is None where no price is known.

    What is saved is of `saves_over_seconds`: a week, or the time that was seen where that is less than a day
    (analyzer/recommendations/saving.py). `held_back` says why a guard does not recommend it now, `instead_of` names the
    better one that would save the same seconds: only what has neither may be added up. `alternatives` are those that
    are instead of this one. What `ends_work` may end somebody's work, and is a question to its owner. All of it is
    plain data, as the JSON has it.
    """

    id: str
    finding_ids: tuple[str, ...]
    kind: str  # reorder_ranks, more_cpu, local_nvme, co_locate, release, share_mig, …
    subject: str
    team: str | None
    actor: str | None
    title: str  # "order the ranks by rack", as on the weekly report
    from_: str
    to: str
    why: str
    saves_milliseconds: Range  # GPU time in saves_over_seconds
    saves_micros: Range | None
    cost_to_move: str  # in words a person can check: "none: a setting", "one restart: 12 min of 64 GPUs, $33"
    cost_to_move_micros: int | None
    artefacts: tuple[Artefact, ...]
    losers: str  # who loses by it, "nobody: the cores are unallotted"
    winners: str = "the run itself"
    notice_ids: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    cause: str = ""
    confidence: Confidence = "medium"
    sure_because: str = ""
    freed: Saved | None = None  # of what it saves: GPUs for other work, the bill stays
    billed: Saved | None = None  # of what it saves: what the bill falls by once the GPUs are handed back
    cost_to_move_milliseconds: int = 0
    takes_effect: Takes = "next_start"
    moving: Moving | None = None
    outlook: Outlook | None = None
    move: Move | None = None
    constraints: tuple[Constraint, ...] = ()
    latency: Latency | None = None
    expires_at: int | None = None
    held_back: str | None = field(default=None)
    instead_of: str | None = field(default=None)
    alternatives: tuple[Alternative, ...] = ()
    saves_over_seconds: int = WEEK_SECONDS
    ends_work: bool = False

    def in_span(self, saved: Range, span_us: int) -> Range:
        """Return what it saves comes to in another span, if it goes on so: to judge by, or of the span of one run."""
        return saved.part(span_us, self.saves_over_seconds * SECOND_US)

    @property
    def artefact(self) -> str:
        """The lines to paste, of all artefacts."""
        return "\n".join(each.text for each in self.artefacts)

    @property
    def stands(self) -> bool:
        """Whether it is recommended now, and may be added up with others that stand."""
        return self.held_back is None and self.instead_of is None

    @property
    def restarts(self) -> bool:
        """Whether something that runs has to be restarted for it now."""
        return self.takes_effect == "now" and self.moving is not None
