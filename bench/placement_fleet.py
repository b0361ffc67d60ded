"""Fleets whose runs have grown apart, to plan anew: of a given size, 85% full, or tiny ones with every rule in them.

Runs were put node by node wherever was room, as a scheduler without topology does after weeks of coming and going. The
mixture of sizes is Philly's in kind (most runs are small, most GPUs in large ones: Jeon et al., ATC'19), the figures
are ours. Costs are micro-dollars a week: a rack more costs 1% of the run (Crux, SIGCOMM'24, saw 11% of an iteration
lost to contention; an extra rack is rarely all of it), moving is a restart of 12 minutes of all of the run's GPUs and 5
more of each node that is new, and an empty shared node is worth a twentieth of its price, for it can be given whole.
"""

from dataclasses import dataclass
from random import Random

from analyzer.recommendations.fleet_plan.problem import Limits, Needs, Pool, Problem, Run, UnitKind

FULL = 0.85
NODES_PER_RACK = 8
GPUS = 8
SKUS = {"H100": (0.60, 2_500_000), "H200": (0.25, 3_400_000), "A100": (0.15, 1_300_000)}  # share, micro-dollars an hour
WEEK_HOURS = 168
SIZES = ((1, 34), (2, 22), (3, 6), (4, 14), (6, 4), (8, 10), (12, 3), (16, 5), (32, 2))  # nodes, weight
PARTS = ((1, 40), (2, 35), (4, 25))  # GPUs, weight
TAINT, RESERVED = "team-a", "inference"


@dataclass(slots=True)
class _Growing:
    """A pool while runs are put into it."""

    pool: Pool
    free: int


def fleet(gpus: int, seed: int, moved_share: float | None = None, is_alike: bool = False) -> Problem:
    """Return a fleet of so many GPUs with its runs; `moved_share` limits which share of the GPUs may move.

    Where `is_alike`, all nodes are of one kind, all runs of whole nodes, and none is pinned, still or apart.
    """
    random = Random(seed)
    pools_made = _alike_pools(gpus // GPUS) if is_alike else _pools(gpus // GPUS, random)
    growing = [_Growing(pool, pool.units) for pool in pools_made]
    runs: list[Run] = []
    for shared in (False, True):
        pools = [entry for entry in growing if entry.pool.kind.shared == shared]
        left = round(sum(entry.free for entry in pools) * FULL)
        while left > 0:
            run = _run(f"run-{len(runs)}", shared, left, pools, random, is_alike)
            if run is None:
                break
            left -= run.units
            runs.append(run)
    limit = None if moved_share is None else round(gpus * moved_share)
    if is_alike:
        return Problem(tuple(pools_made), tuple(runs), Limits(limit))
    apart = {n: frozenset({runs[n + 1].id}) for n in range(0, len(runs) - 1, 40)}
    runs = [_with(run, apart.get(n, frozenset()), random) for n, run in enumerate(runs)]
    return Problem(tuple(pools_made), tuple(runs), Limits(limit, _still(runs, random)))


def _alike_pools(nodes: int) -> list[Pool]:
    racks = -(-nodes // NODES_PER_RACK)
    kind = UnitKind("H100", GPUS)
    return [Pool(f"r{n}", f"r{n}", kind, min(NODES_PER_RACK, nodes - n * NODES_PER_RACK)) for n in range(racks)]


def _pools(nodes: int, random: Random) -> list[Pool]:
    racks = -(-nodes // NODES_PER_RACK)
    found = []
    for rack in range(racks):
        position, sku = (rack + 0.5) / racks, "A100"
        for name, (share, _) in SKUS.items():
            if position < share:
                sku = name
                break
            position -= share
        inside = min(NODES_PER_RACK, nodes - rack * NODES_PER_RACK)
        nvme = {0: inside, 1: inside // 2}.get(rack % 5, 0)  # one rack in five has NVMe, another has it in half
        taints = frozenset({TAINT}) if random.random() < 0.06 else frozenset[str]()
        reservation = RESERVED if not taints and random.random() < 0.04 else None
        shared = 1 if random.random() < 0.8 else 0
        for part, count in (("nvme", nvme), ("plain", inside - nvme)):
            whole = count - shared if part == "plain" and count > shared else count
            kind = UnitKind(sku, GPUS, False, part == "nvme", None, taints, reservation)
            if whole > 0:
                found.append(Pool(f"r{rack}/{part}", f"r{rack}", kind, whole))
            for number in range(count - whole):
                single = UnitKind(sku, 1, shared=True, taints=taints, reservation=reservation)
                price = SKUS[sku][1] * GPUS * WEEK_HOURS // 20
                found.append(Pool(f"r{rack}/shared-{number}", f"r{rack}", single, GPUS, price))
    return found


def _run(name: str, shared: bool, left: int, pools: list[_Growing], random: Random, is_alike: bool) -> Run | None:
    for _ in range(200):
        sizes = PARTS if shared else SIZES
        units = min(left, random.choices([n for n, _ in sizes], [weight for _, weight in sizes])[0])
        if shared and units == 3:
            units = 2
        origin = random.choice(pools).pool.kind
        needs = Needs(
            skus=frozenset({origin.sku}) if is_alike or random.random() < 0.9 else frozenset({"H100", "H200"}),
            gpus_per_unit=1 if shared else GPUS,
            shared=shared,
            nvme=origin.nvme and random.random() < 0.7,
            tolerates=origin.taints,
            reservations=frozenset() if origin.reservation is None else frozenset({origin.reservation}),
        )
        held = _held(needs, units, pools, random)
        if held:
            return _priced(name, units, needs, held, SKUS[next(iter(sorted(needs.skus)))][1])
    return None


def _held(needs: Needs, units: int, pools: list[_Growing], random: Random) -> tuple[tuple[str, int], ...]:
    sku = random.choice(sorted(needs.skus))
    suiting = [e for e in pools if e.free and e.pool.kind.sku == sku and _suits(e.pool.kind, needs)]
    taken: dict[str, int] = {}
    if needs.shared:
        suiting = [entry for entry in suiting if entry.free >= units]
        if not suiting:
            return ()
        entry = random.choice(suiting)
        entry.free -= units
        return ((entry.pool.id, units),)
    if sum(entry.free for entry in suiting) < units:
        return ()
    for _ in range(units):
        entry = random.choice([entry for entry in suiting if entry.free])
        entry.free -= 1
        taken[entry.pool.id] = taken.get(entry.pool.id, 0) + 1
    return tuple(taken.items())


def _suits(kind: UnitKind, needs: Needs) -> bool:
    return (
        (kind.nvme or not needs.nvme)
        and kind.taints <= needs.tolerates
        and (kind.reservation is None or kind.reservation in needs.reservations)
        and kind.mig == needs.mig
    )


def _priced(name: str, units: int, needs: Needs, held: tuple[tuple[str, int], ...], hourly: int) -> Run:
    gpu_hour = hourly * needs.gpus_per_unit
    return Run(
        id=name,
        units=units,
        needs=needs,
        held=held,
        span_cost=0 if needs.shared else units * gpu_hour * WEEK_HOURS // 100,
        move_cost=gpu_hour * 5 // 60,
        restart_cost=units * gpu_hour * 12 // 60,
    )


def _with(run: Run, apart: frozenset[str], random: Random) -> Run:
    return Run(
        **{
            **{name: getattr(run, name) for name in run.__slots__},
            "apart_from": apart,
            "pinned": random.random() < 0.04,
        }
    )


def _still(runs: list[Run], random: Random) -> frozenset[str]:
    return frozenset(run.id for run in runs if random.random() < 0.03)


def tiny(seed: int, racks_max: int = 4, runs_max: int = 8) -> Problem:
    """Return a problem of a few racks and runs in which every rule can occur, valid as it stands."""
    random = Random(seed)
    pools = _tiny_pools(random, random.randint(1, racks_max))
    growing = [_Growing(pool, pool.units) for pool in pools]
    runs: list[Run] = []
    for number in range(random.randint(1, runs_max)):
        needs = _tiny_needs(random)
        units = random.choice((1, 1, 2, 4) if needs.shared else (1, 1, 2, 2, 3, 4, 5))
        held = _tiny_held(needs, units, growing, random) if random.random() < 0.85 else ()
        runs.append(
            Run(
                id=f"run-{number}",
                units=units,
                needs=needs,
                held=held,
                span_cost=random.choice((0, 50, 100, 700)) * units,
                move_cost=random.choice((0, 1, 10, 60)),
                restart_cost=random.choice((0, 0, 20, 90)),
                unfit_cost=random.choice((0, 40, 500)),
                waiting_cost=0 if held else random.choice((0, 300, 5_000)),
                max_racks=random.choice((None, None, 1, 2)),
                apart_from=frozenset({f"run-{random.randrange(runs_max)}"}) - {f"run-{number}"}
                if random.random() < 0.25
                else frozenset(),
                pinned=random.random() < 0.1,
            )
        )
    gpus = sum(pool.units * pool.kind.gpus_per_unit for pool in pools)
    limit = random.choice((None, None, 0, gpus // 20, gpus // 4))
    return Problem(pools, tuple(runs), Limits(limit, frozenset(r.id for r in runs if random.random() < 0.08)))


def _tiny_pools(random: Random, racks: int) -> tuple[Pool, ...]:
    found = []
    for rack in range(racks):
        for part in range(random.choice((1, 1, 2, 3))):
            shared = random.random() < 0.35
            kind = UnitKind(
                sku=random.choice(("H100", "H100", "A100")),
                gpus_per_unit=1 if shared else random.choice((8, 8, 8, 4)),
                shared=shared,
                nvme=random.random() < 0.4,
                mig="1g.10gb" if shared and random.random() < 0.2 else None,
                taints=frozenset({TAINT}) if random.random() < 0.2 else frozenset(),
                reservation=RESERVED if random.random() < 0.15 else None,
            )
            units = random.choice((4, 8)) if shared else random.randint(0, 4)
            open_cost = random.choice((0, 30, 400)) if shared or random.random() < 0.2 else 0
            found.append(Pool(f"r{rack}/{part}", f"r{rack}", kind, units, open_cost))
    return tuple(found)


def _tiny_needs(random: Random) -> Needs:
    shared = random.random() < 0.35
    return Needs(
        skus=random.choice((frozenset({"H100"}), frozenset({"A100"}), frozenset({"H100", "A100"}))),
        gpus_per_unit=1 if shared else random.choice((8, 8, 8, 4)),
        shared=shared,
        nvme=random.random() < 0.2,
        mig="1g.10gb" if shared and random.random() < 0.2 else None,
        tolerates=frozenset({TAINT}) if random.random() < 0.5 else frozenset(),
        reservations=frozenset({RESERVED}) if random.random() < 0.3 else frozenset(),
        mixes_skus=random.random() < 0.3,
    )


def _tiny_held(needs: Needs, units: int, growing: list[_Growing], random: Random) -> tuple[tuple[str, int], ...]:
    """Return units of the right size, and of kinds that do not always suit: that too is found in fleets."""
    sizes = [
        e for e in growing if (e.pool.kind.shared, e.pool.kind.gpus_per_unit) == (needs.shared, needs.gpus_per_unit)
    ]
    if not needs.mixes_skus and sizes:
        sku = random.choice(sizes).pool.kind.sku
        sizes = [entry for entry in sizes if entry.pool.kind.sku == sku]
    if random.random() < 0.8:
        sizes = [entry for entry in sizes if entry.pool.kind.sku in needs.skus and _suits(entry.pool.kind, needs)]
    if needs.shared:
        sizes = [entry for entry in sizes if entry.free >= units]
        if sizes:
            entry = random.choice(sizes)
            entry.free -= units
            return ((entry.pool.id, units),)
        return ()
    if sum(entry.free for entry in sizes) < units:
        return ()
    taken: dict[str, int] = {}
    for _ in range(units):
        entry = random.choice([entry for entry in sizes if entry.free])
        entry.free -= 1
        taken[entry.pool.id] = taken.get(entry.pool.id, 0) + 1
    return tuple(taken.items())
