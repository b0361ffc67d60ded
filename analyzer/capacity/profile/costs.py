"""What a unit of the work cost in each run, by the run's own count."""

from analyzer.capacity.profile.facts import UnitCost
from analyzer.capacity.profile.work import Work
from analyzer.measures.efficiency.efficiency_query import reported_progress
from collector.store.session import Session

_COST = """
    SELECT run_id, if(bool_or(cost_micros IS NULL AND milliseconds > 0), NULL, sum(cost_micros))::BIGINT FROM ledger
    WHERE list_contains($runs::VARCHAR[], run_id) GROUP BY run_id
"""
_REQUESTS = """
    SELECT run_id, sum(requests)::BIGINT FROM served_amounts WHERE list_contains($runs::VARCHAR[], run_id)
    GROUP BY run_id HAVING sum(requests) > 0
"""


def unit_costs(session: Session, work: Work) -> tuple[UnitCost, ...]:
    """Return what each run came to a unit, over its whole life; runs that count nothing, or in a chorus, are left out.

    Tokens go before samples, those before steps, and requests are a service's.
    """
    cost = dict(work.rows(session, _COST))
    said = reported_progress(session, work.run_ids)
    requests = dict(work.rows(session, _REQUESTS))
    found = []
    for run_id in work.run_ids:
        one = said.get(run_id)
        counts = [("requests", requests.get(run_id))]
        if one is not None and not one.is_chorus:
            counts += [("tokens", one.tokens), ("samples", one.samples), ("steps", one.steps)]
        unit, units = next(((unit, units) for unit, units in counts if units), ("", 0))
        if units:
            found.append(UnitCost(run_id, unit, units, cost.get(run_id)))
    return tuple(found)
