"""Check a plan against its problem, from nothing but the two: shares no code with what makes plans.

Each broken constraint becomes a sentence. Costs are summed anew here, so that a solver's own arithmetic is checked too.
"""

from collections.abc import Iterator

from analyzer.recommendations.fleet_plan.problem import Plan, Pool, Problem, Run


def broken(problem: Problem, plan: Plan) -> list[str]:
    """Return a sentence for each rule that the plan breaks and each figure that it states wrongly; empty is good."""
    pools = {pool.id: pool for pool in problem.pools}
    unknown = [*_unknown(problem, plan, pools)]
    if unknown:  # the rest would be about something else
        return unknown
    found = [*_capacities(plan, pools)]
    for run in problem.runs:
        found += _gang(run, dict(plan.placed[run.id]), pools)
        found += _rules(run, dict(plan.placed[run.id]), pools, run.pinned or run.id in problem.limits.still)
    found += _apart(problem, plan, pools)
    found += _figures(problem, plan, pools)
    return found


def _unknown(problem: Problem, plan: Plan, pools: dict[str, Pool]) -> Iterator[str]:
    known = {run.id for run in problem.runs}
    for run_id in sorted(known - plan.placed.keys()):
        yield f"{run_id} is not in the plan"
    for run_id, place in plan.placed.items():
        if run_id not in known:
            yield f"{run_id} is not a run of the problem"
        for pool, units in place:
            if pool not in pools:
                yield f"{run_id} is put into {pool}, which does not exist"
            if units <= 0:
                yield f"{run_id} is given {units} units of {pool}"
        if len({pool for pool, _ in place}) != len(place):
            yield f"{run_id} is put into one pool twice"


def _capacities(plan: Plan, pools: dict[str, Pool]) -> Iterator[str]:
    used: dict[str, int] = {}
    for place in plan.placed.values():
        for pool, units in place:
            used[pool] = used.get(pool, 0) + units
    for pool, units in used.items():
        if units > pools[pool].units:
            yield f"{pool} has {pools[pool].units} units and is given {units}"


def _gang(run: Run, place: dict[str, int], pools: dict[str, Pool]) -> Iterator[str]:
    if not place:
        if run.held:
            yield f"{run.id} runs today and is left without a place"
        return
    if sum(place.values()) != run.units:
        yield f"{run.id} is a gang of {run.units} units and is given {sum(place.values())}"
    if run.needs.shared and len(place) > 1:
        yield f"{run.id} needs the units of one node and is given those of {len(place)}"
    if not run.needs.mixes_skus and len({pools[pool].kind.sku for pool in place}) > 1:
        yield f"{run.id} keeps to one SKU and is given several"
    racks = len({pools[pool].rack for pool in place})
    today = len({pools[pool].rack for pool, _ in run.held})
    if run.max_racks is not None and racks > max(run.max_racks, today):
        yield f"{run.id} may span {run.max_racks} racks (now {today}) and spans {racks}"


def _rules(run: Run, place: dict[str, int], pools: dict[str, Pool], is_still: bool) -> Iterator[str]:
    held = dict(run.held)
    if is_still and place != held:
        yield f"{run.id} must stay where it is and is moved"
    for name, units in place.items():
        if units <= held.get(name, 0):
            continue  # what it has it may keep
        for reason in _unfit(run, pools[name]):
            yield f"{run.id} is given {units} units of {name}, {reason}"


def _unfit(run: Run, pool: Pool) -> list[str]:
    kind, needs = pool.kind, run.needs
    reasons = []
    if kind.sku not in needs.skus:
        reasons.append(f"which are {kind.sku}")
    if kind.shared != needs.shared or kind.gpus_per_unit != needs.gpus_per_unit:
        reasons.append("which are of another size")
    if needs.nvme and not kind.nvme:
        reasons.append("which have no NVMe")
    if kind.mig != needs.mig:
        reasons.append(f"whose MIG layout is {kind.mig or 'none'}")
    if not kind.taints <= needs.tolerates:
        reasons.append(f"whose taint it does not tolerate: {', '.join(sorted(kind.taints - needs.tolerates))}")
    if kind.reservation is not None and kind.reservation not in needs.reservations:
        reasons.append(f"which are reserved for {kind.reservation}")
    return reasons


def _apart(problem: Problem, plan: Plan, pools: dict[str, Pool]) -> Iterator[str]:
    now = {run.id: {pools[pool].rack for pool, _ in run.held} for run in problem.runs}
    then = {run_id: {pools[pool].rack for pool, _ in place} for run_id, place in plan.placed.items()}
    for run in problem.runs:
        for other in sorted(run.apart_from & then.keys()):
            for rack in sorted((then[run.id] & then[other]) - (now[run.id] & now[other])):
                yield f"{run.id} must be apart from {other}, and both are in {rack}"


def _figures(problem: Problem, plan: Plan, pools: dict[str, Pool]) -> Iterator[str]:
    moved = 0
    for run in problem.runs:
        place = dict(plan.placed[run.id])
        moved += sum(max(0, units - place.get(pool, 0)) * pools[pool].kind.gpus_per_unit for pool, units in run.held)
    limit = problem.limits.moved_gpus_max
    if limit is not None and moved > limit:
        yield f"{limit} GPUs may move and {moved} do"
    if moved != plan.moved_gpus:
        yield f"the plan says that {plan.moved_gpus} GPUs move and {moved} do"
    today = {run.id: run.held for run in problem.runs}
    for name, said, placed in (("plan", plan.cost, plan.placed), ("present", plan.cost_before, today)):
        cost = _cost(problem, placed, pools)
        if cost != said:
            yield f"the {name} is said to cost {said} and costs {cost}"
    changed = {run.id for run in problem.runs if dict(run.held) != dict(plan.placed[run.id])}
    if changed != {move.run_id for move in plan.moves}:
        yield "the list of moves is not what differs from today"
    for move in plan.moves:
        yield from _move(move.run_id, dict(move.from_), dict(move.to), problem, plan)


def _move(run_id: str, left: dict[str, int], gained: dict[str, int], problem: Problem, plan: Plan) -> Iterator[str]:
    held = next((dict(run.held) for run in problem.runs if run.id == run_id), {})
    place = dict(plan.placed.get(run_id, ()))
    if left != {pool: n - place.get(pool, 0) for pool, n in held.items() if n > place.get(pool, 0)}:
        yield f"the move of {run_id} does not leave what it leaves"
    if gained != {pool: n - held.get(pool, 0) for pool, n in place.items() if n > held.get(pool, 0)}:
        yield f"the move of {run_id} does not take what it takes"


def _cost(problem: Problem, placed: dict[str, tuple[tuple[str, int], ...]], pools: dict[str, Pool]) -> int:
    total = 0
    for run in problem.runs:
        held, place = dict(run.held), dict(placed[run.id])
        if not place:
            total += run.waiting_cost
            continue
        total += run.span_cost * (len({pools[pool].rack for pool in place}) - 1)
        gone = sum(max(0, units - place.get(pool, 0)) for pool, units in held.items())
        total += run.move_cost * gone + (run.restart_cost if gone else 0)
        total += run.unfit_cost * sum(units for pool, units in place.items() if _unfit(run, pools[pool]))
    opened = {pool for place in placed.values() for pool, _ in place}
    return total + sum(pools[pool].open_cost for pool in opened)
