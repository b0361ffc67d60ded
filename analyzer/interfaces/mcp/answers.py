"""What the reading tools answer: the API's own figures, and beside them the fleet's words as marked data."""

from pydantic import Field

from analyzer.findings.finding import FindingDocument
from analyzer.interfaces.mcp.untrusted import Said, marked_model
from analyzer.reports.document import Amounts, Coverage, MeasuredTime, Model, Span


class Page(Model):
    """Some rows of a listing, and how to come to the rest."""

    generation: str = Field(description="The state of the ledger that was read; it changes when the ledger does.")
    currency: str
    more: bool = Field(description="Whether rows were left out: ask again with `cursor` for those that follow.")
    cursor: str | None


FindingTold = marked_model(FindingDocument)  # the same fields, with all that the fleet wrote marked


class Findings(Page):
    """Findings of a period, the dearest first. They share no GPU time, so they may be summed."""

    period: Span
    hours: Coverage
    measured: MeasuredTime
    items: list[FindingTold]  # type: ignore[valid-type]  # made while it runs


class Explained(Model):
    """One finding with what it rests on."""

    generation: str
    currency: str
    period: Span
    finding: FindingTold  # type: ignore[valid-type]  # made while it runs
    recommendation_ids: list[str] = Field(
        description="What answers it; `gpuledger recommendations show ID` has the lines to paste."
    )


class RunTold(Model):
    """One run: who, what, when, how large. null is unknown."""

    run_id: Said
    name: Said | None
    team: Said | None
    project: Said | None
    model: Said | None
    queue: Said | None
    stage: Said | None
    exit_status: Said | None
    sku: Said | None
    started_at_iso: str | None
    ended_at_iso: str | None
    running: bool
    gpus: int
    nodes: int
    racks: int | None


class Runs(Page):
    """Runs, the one that began last first."""

    period: Span | None
    items: list[RunTold]


class CostTold(Model):
    """The cost of one bearer, and its five classes, which sum to it; only avoidable may be called waste."""

    bearer: Said | None = Field(description="null: unmapped where `held`, else GPUs that nobody held.")
    held: bool
    total: Amounts
    useful: Amounts
    avoidable: Amounts
    overhead: Amounts
    spare: Amounts
    unknown: Amounts


class Costs(Page):
    """Costs of a period, the dearest first; `total` is of all rows, those left out too."""

    period: Span
    hours: Coverage
    by: str
    total: Amounts
    items: list[CostTold]


class RackTold(Model):
    """What a rack holds; null is all hosts whose rack is not known."""

    rack: Said | None
    nodes: int
    gpus: int


class NodeTold(Model):
    """One host. null is what nobody has told."""

    node: Said
    zone: Said | None
    block: Said | None
    rack: Said | None
    node_group: Said | None
    sku: Said | None
    gpus: int
    gpu_memory_bytes: int | None
    cpu_cores: int | None
    host_memory_bytes: int | None
    local_nvme_bytes: int | None


class Topology(Page):
    """What stands where in the ledger's newest hour; the counts are of all hosts asked for."""

    hour_iso: str
    node_count: int
    gpu_count: int
    racks: list[RackTold] = Field(description="The first of them; `rack_count` counts all.")
    rack_count: int
    items: list[NodeTold]
