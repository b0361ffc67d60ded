"""Read the traffic of runs as it was booked: SQL adds up bytes by host and peer, pure functions say what they mean."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzer.measures.traffic.locality import HostLocation
from analyzer.measures.traffic.matrix import FlowBytes, LinkBytes, RingSeat
from analyzer.measures.traffic.run_traffic import RunTraffic, Waited, run_traffic
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.queries.statements import run, statements

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(slots=True)
class _Rows:
    """What was told of one run."""

    seats: list[RingSeat] = field(default_factory=list)
    links: list[LinkBytes] = field(default_factory=list)
    flows: list[FlowBytes] = field(default_factory=list)
    gpu_link_bytes: int | None = None
    waited: Waited | None = None


def read_traffic(
    session: "Session", run_ids: Sequence[str], from_us: int, until_us: int, tariffs: TariffBook | None = None
) -> dict[str, RunTraffic]:
    """Return the traffic of runs in [from_us, until_us), microseconds UTC; runs that held no host then are left out.

    Raises:
        StoreError: the store does not answer.
    """
    run(session, "measures/traffic/segments.sql", runs=list(run_ids), from_us=from_us, until_us=until_us)
    asked: dict[str, object] = {"runs": list(run_ids), "from_us": from_us, "until_us": until_us}
    told = _told(session, asked)
    for run_id, ms, cost in _all(session, "waited", **asked):
        told[run_id].waited = Waited(ms, None if cost is None else int(cost))
    places = read_places(session, until_us)
    book = tariffs or TariffBook()
    return {
        run_id: run_traffic(
            run_id, rows.seats, rows.links, rows.flows, rows.gpu_link_bytes, places, rows.waited, book.at(from_us)
        )
        for run_id, rows in sorted(told.items())
        if rows.seats
    }


def read_places(session: "Session", until_us: int) -> dict[str, HostLocation]:
    """Return where each host of the fleet stood at the end of a span, microseconds UTC."""
    return {node: HostLocation(*where) for node, *where in _all(session, "places", until_us=until_us)}


def _told(session: "Session", asked: dict[str, object]) -> dict[str, _Rows]:
    found: dict[str, _Rows] = defaultdict(_Rows)
    for run_id, node, attempt, rank, held_us, shared_us in _all(session, "seats"):
        found[run_id].seats.append(RingSeat(node, attempt, rank, held_us, shared_us))
    for run_id, node, attempt, shared, is_rdma, received, sent in _all(session, "links", **asked):
        found[run_id].links.append(LinkBytes(node, attempt, shared, is_rdma, _whole(received), _whole(sent)))
    for run_id, node, attempt, own, is_rdma, peer, received, sent in _all(session, "flows", **asked):
        found[run_id].flows.append(FlowBytes(node, attempt, own, is_rdma, peer, int(received), int(sent)))
    for run_id, sent in _all(session, "gpu_links", **asked):
        found[run_id].gpu_link_bytes = _whole(sent)
    return found


def _all(session: "Session", name: str, **parameters: object) -> list[tuple[Any, ...]]:
    (query,) = statements(f"measures/traffic/{name}.sql")
    return session.rows(query, parameters)


def _whole(amount: int | None) -> int | None:
    return None if amount is None else int(amount)
