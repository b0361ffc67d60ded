"""What the API says of requests for more GPUs: each with its decision, its waivers and its history."""

from typing import Literal

from pydantic import Field

from analyzer.capacity.gate.decided import Decided, Verdict
from analyzer.capacity.gate.request_store import Event, KeptRequest
from analyzer.interfaces.api.parameters import Paged, Parameters, Texts
from analyzer.reports.document import Document, Listing, Micros, Model, iso


class CapacityListAsked(Paged):
    """Which requests."""

    team: Texts = Field([])


class CapacityEventItem(Model):
    """One entry of a request's history."""

    at: Micros
    at_iso: str
    kind: Literal["decided", "waived"]
    who: str = Field(description="A key's id, or cli: and the user of the machine.")
    role: str = Field(description="The role of who said it.")
    verdict: Verdict = Field(description="That held from then on.")
    gate: str | None = Field(description="Of a waiver.")
    reason: str | None = Field(description="Of a waiver.")

    @classmethod
    def of(cls, event: Event) -> "CapacityEventItem":
        """Return an entry as the API writes it."""
        return cls(
            at=event.at,
            at_iso=iso(event.at),
            kind="waived" if event.kind == "waived" else "decided",
            who=event.who,
            role=event.role,
            verdict=event.verdict,  # type: ignore[arg-type]  # the gate's own words
            gate=event.gate,
            reason=event.reason,
        )


class CapacityItem(Model):
    """One request. Amounts of money within `decided` are millionths, shares thousandths, times microseconds UTC."""

    id: str
    team: str
    asked_at: Micros
    asked_at_iso: str
    asked_by: str
    verdict: Verdict
    decided: Decided
    history: list[CapacityEventItem]

    @classmethod
    def of(cls, kept: KeptRequest) -> "CapacityItem":
        """Return a request as the API writes it."""
        return cls(
            id=kept.decided.request_id,
            team=kept.decided.request.team,
            asked_at=kept.asked_at,
            asked_at_iso=iso(kept.asked_at),
            asked_by=kept.asked_by,
            verdict=kept.decided.verdict,
            decided=kept.decided,
            history=[CapacityEventItem.of(event) for event in kept.history],
        )


class CapacityDocument(Document):
    """One request."""

    request: CapacityItem


class CapacityPage(Listing):
    """Requests, the newest first."""

    items: list[CapacityItem]


class WaiverAsked(Parameters):
    """That a gate is waived."""

    gate: str = Field(min_length=1, max_length=40, description="The gate's name.")
    reason: str = Field(min_length=1, max_length=500, description="Why; one sentence.")
