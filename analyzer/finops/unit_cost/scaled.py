"""Scaling efficiency of what trained in a period: what a GPU does in larger runs of a model, against the smallest."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.measures.efficiency.efficiency_query import NOT_TRAINING, reported_progress
from analyzer.measures.efficiency.of_run import peer_of
from analyzer.measures.efficiency.scaling import Peer, Scaling, Signature, scaling, signature
from analyzer.period import Period
from analyzer.queries.labels import labels_of
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Scaled:
    """One model on one kind of GPU, at the sizes that were seen: the period's runs, and those of the weeks before."""

    model: str
    batch: str | None
    sku: str
    scaling: Scaling


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """What scaled, worst first; `unsized` counts models of the period of which no two sizes can be compared."""

    scaled: tuple[Scaled, ...] = ()
    unsized: int = 0


def scaling_report(session: "Session", period: Period, since: int) -> ScalingReport:
    """Return how what trained in a period scaled, from what runs said of themselves since then."""
    (query,) = statements("finops/unit_cost/trained.sql")
    span = {"since": since, "start": period.start, "end": period.end, "others": list(NOT_TRAINING)}
    rows = session.rows(query, span)
    said = reported_progress(session, [row[0] for row in rows])
    alike: dict[Signature, list[Peer]] = defaultdict(list)
    here: set[Signature] = set()
    for run_id, name, gpus, sku, labels, is_now in rows:
        own, peer = signature(name, labels_of(labels), sku), peer_of(gpus, said.get(run_id))
        if own is not None and peer is not None:
            alike[own].append(peer)
            here |= {own} if is_now else set()
    tables = {own: scaling(alike[own], is_batch_known=own.batch is not None) for own in here}
    found = [Scaled(own.model, own.batch, own.sku, table) for own, table in tables.items() if table.sizes]
    found.sort(key=lambda one: (one.scaling.sizes[-1].efficiency, one.model, one.sku, one.batch or ""))
    return ScalingReport(tuple(found), len(tables) - len(found))
