"""Hardware: narrow links, worn memory, what the driver asks for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.health.notice import Notice, Span
from analyzer.ids import short_id
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Health:
    """What was seen of one GPU in a period; None where nobody told."""

    node: str
    gpu_uuid: str
    width: int | None = None
    width_max: int | None = None
    generation: int | None = None  # the best while it was busy
    generation_max: int | None = None
    remap_pending: bool = False
    remap_failure: bool = False
    recovery_action: str | None = None


def find_notices(session: "Session", _span: Span) -> Iterator[Notice]:
    """Yield what is to be looked at, by node and GPU."""
    (select,) = statements("findings/health/hardware.sql")
    for row in session.rows(select):
        yield from notices_of(Health(*row))


def notices_of(health: Health) -> Iterator[Notice]:
    """Yield what a person should look at; a GPU that is well gives nothing."""

    def notice(kind: str, sentence: str) -> Notice:
        return Notice(
            short_id("n", "hardware", kind, health.gpu_uuid),
            f"hardware/{kind}",
            health.gpu_uuid,
            sentence,
            "platform",
            node=health.node,
            gpu_uuid=health.gpu_uuid,
        )

    if _less(health.width, health.width_max):
        yield notice(
            "pcie_width", f"PCIe link of {health.width} lanes where {health.width_max} are possible: reseat it"
        )
    if _less(health.generation, health.generation_max):
        yield notice(
            "pcie_generation",
            f"PCIe generation {health.generation} under load of {health.generation_max} possible: see slot and BIOS",
        )
    if health.remap_failure:
        yield notice("memory_rows", "a broken row of its memory could not be replaced: have the board replaced")
    elif health.remap_pending:
        yield notice("memory_rows", "a row of its memory is replaced at the next reset: drain and reset it")
    if health.recovery_action not in (None, "none"):
        yield notice("recovery", f"the driver asks for {str(health.recovery_action).replace('_', ' ')}")


def _less(now: int | None, most: int | None) -> bool:
    return now is not None and most is not None and now < most
