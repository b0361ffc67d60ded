"""What a recommendation is in JSON: the one model of the API, of the command's --json and of the published schema."""

from pydantic import Field

from analyzer.recommendations.recommendation import Cost, Form, Recommendation, Takes
from analyzer.reports.document import CostMicros, Micros, Milliseconds, Model
from analyzer.states import Confidence
from analyzer.text.as_json import plain_data


class SavedTime(Model):
    """A prediction of GPU time in `saves_over_seconds`: one in five is below p20, one above p80."""

    p20: Milliseconds
    p50: Milliseconds
    p80: Milliseconds
    p5: Milliseconds
    p95: Milliseconds


class SavedMoney(Model):
    """A prediction of money in `saves_over_seconds`."""

    p20: CostMicros
    p50: CostMicros
    p80: CostMicros
    p5: CostMicros
    p95: CostMicros


class SavedPart(Model):
    """One of the two parts of what is saved."""

    milliseconds: SavedTime
    micros: SavedMoney | None = Field(description="null where no price is known.")


class ArtefactItem(Model):
    """One text to paste, and for whom it is."""

    form: Form
    text: str


class RestartPart(Model):
    """One part of what a restart takes, of all GPUs of its runs."""

    what: Cost
    seconds: int
    measured: bool = Field(description="Of the run itself or its queue; else assumed.")
    told: str


class Restart(Model):
    """What has to be restarted."""

    gpus: int
    parts: list[RestartPart]
    moved_at: Micros | None = Field(description="When the run was last begun anew.")


class OutlookItem(Model):
    """For how long it can still save."""

    running: bool
    remaining_seconds: int | None = Field(description="Of what still runs; null where nothing does.")
    recurs: int = Field(description="Other runs of its name and team in the four weeks before.")
    told: str


class PlaceItem(Model):
    """Where something is or should be: nodes in the order of ranks, and the rack of each."""

    nodes: list[str]
    racks: list[str | None]
    gpus: int
    sku: str | None
    slice_: str | None = Field(
        serialization_alias="slice", validation_alias="slice", description="A MIG profile, such as 1g.10gb."
    )


class MoveItem(Model):
    """What moves: `from` is null for what is not placed yet, `to` for what is given back."""

    from_: PlaceItem | None = Field(serialization_alias="from", validation_alias="from")
    to: PlaceItem | None


class ConstraintItem(Model):
    """One thing that was looked at; `holds` is null where it could not be known."""

    what: str
    holds: bool | None
    told: str


class LatencyItem(Model):
    """Seconds to the first token (or answer) at P99, measured before and expected after; null where not known."""

    before_seconds: float | None
    after_seconds: float | None
    slo_seconds: float | None
    told: str


class AlternativeItem(Model):
    """Another change that would save the same seconds; what it saves is not to be added."""

    id: str
    kind: str
    title: str
    saves_milliseconds: Milliseconds = Field(description="Likely (P50), in the span of the other.")
    saves_micros: CostMicros | None = Field(description="Likely (P50); null where no price is known.")


class Advice(Model):
    """One concrete change. What it saves is predicted: likely no more than is at stake, with luck a twentieth more."""

    id: str
    finding_ids: list[str]
    kind: str
    subject: str
    team: str | None
    actor: str | None
    title: str
    from_: str = Field(serialization_alias="from", validation_alias="from")
    to: str
    why: str
    saves_milliseconds: SavedTime
    saves_micros: SavedMoney | None = Field(description="null where no price is known.")
    cost_to_move: str
    cost_to_move_micros: CostMicros | None
    artefacts: list[ArtefactItem]
    losers: str = Field(description="Who loses by it.")
    winners: str = Field(description="Who gains by it.")
    notice_ids: list[str]
    run_ids: list[str]
    cause: str
    confidence: Confidence
    sure_because: str
    freed: SavedPart | None = Field(description="Of what it saves: GPUs for other work, while the bill stays.")
    billed: SavedPart | None = Field(description="Of what it saves: what the bill falls by, once GPUs are handed back.")
    cost_to_move_milliseconds: Milliseconds
    takes_effect: Takes
    moving: Restart | None = Field(description="null where nothing has to be restarted.")
    outlook: OutlookItem | None
    move: MoveItem | None
    constraints: list[ConstraintItem]
    latency: LatencyItem | None = Field(description="Of a service, always.")
    expires_at: Micros | None
    held_back: str | None = Field(description="Why a guard does not recommend it now; null: it does.")
    instead_of: str | None = Field(description="The better one that would save the same seconds; null: there is none.")
    alternatives: list[AlternativeItem] = Field(description="Those that are instead of this one, the best first.")
    saves_over_seconds: int = Field(
        description="Of which span it is told what is saved: a week, or the time that was seen where it is under a day."
    )
    ends_work: bool = Field(
        description="Whether it may end somebody's work: a question to its owner, never a first step."
    )


def advice_data(advice: Recommendation) -> dict[str, object]:
    """Return a recommendation as `recommendations show --json` writes it; the model takes it as it is."""
    return dict(plain_data(advice))
