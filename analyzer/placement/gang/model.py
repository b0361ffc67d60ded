"""The problem as an integer programme: units kept, units new, racks spanned, per run; capacities, per pool.

Two sizes of it. The full one has a column for every run and pool; its optimum is the problem's, and its solution is a
plan. The lumped one keeps apart only the racks that a run holds today; all others that look alike are one rack of many,
whose spans are counted in fewest racks. Every plan of the full one is one of the lumped one at the same cost or less,
so its bound holds for both. At 16,384 GPUs it has 13,000 columns instead of 125,000.
"""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.placement.gang.index import Index, Place
from analyzer.placement.gang.programme import INFINITY, Programme


@dataclass(frozen=True, slots=True)
class _Zone:
    """One rack, or in the lumped programme as many as look alike, with the pools that a run may take there."""

    pools: tuple[int, ...]  # real pools, or those of the first rack of the lump
    count: int
    lump: int | None  # None for a real rack


class _Builder:
    """Adds run after run to a programme, and the rows that they share at the end."""

    def __init__(self, index: Index, places: list[Place], is_lumped: bool) -> None:
        self.index, self.places, self.is_lumped = index, places, is_lumped
        self.programme = Programme()
        self.in_pool: dict[int, dict[int, int]] = defaultdict(dict)
        self.in_lump: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # lump and position in its racks
        self.opened: dict[int, list[tuple[int, int]]] = defaultdict(list)  # pool: column and its upper
        self.opening: dict[int, int] = {}  # pool: the column that says it is used
        self.spans: list[dict[int, list[int]]] = [{} for _ in places]  # by run: rack to columns that say it is there
        self.kept: dict[int, int] = {}  # column: GPUs of a unit that stays
        self.free = list(index.capacity)
        self.is_open = [False] * len(index.capacity)
        self.pools_of: list[list[int]] = [[] for _ in range(index.racks)]
        for pool, rack in enumerate(index.rack_of):
            self.pools_of[rack].append(pool)
        for run, fixed in enumerate(index.fixed):
            if fixed:
                for pool, units in index.held[run].items():
                    self.free[pool] -= units
                    self.is_open[pool] = True
        self.lump_of, self.lumps = self._lumps()
        self.lump_most: list[
            list[tuple[int, int]]
        ] = [  # by lump and position: the most that is free in any of its racks, and in all
            [
                (max(free), sum(free))
                for free in zip(*([self.free[p] for p in self.pools_of[r]] for r in racks), strict=True)
            ]
            for racks in self.lumps
        ]

    def _lumps(self) -> tuple[list[int], list[list[int]]]:
        """Return by rack its lump, and by lump its racks: equal kinds and costs in equal order, however full."""
        numbers: dict[object, int] = {}
        lump_of, lumps = [], list[list[int]]()
        pools = self.index.problem.pools
        for inside in self.pools_of:
            inside.sort(key=lambda p: (pools[p].kind.sku, self.index.classes_of[p], pools[p].open_cost, p))
        for rack, inside in enumerate(self.pools_of):
            number = numbers.setdefault(tuple((pools[p].kind, pools[p].open_cost) for p in inside), len(numbers))
            lump_of.append(number)
            if number == len(lumps):
                lumps.append([])
            lumps[number].append(rack)
        return lump_of, lumps

    def zones(self, run: int) -> list[_Zone]:
        index = self.index
        held_racks = dict.fromkeys(index.rack_of[pool] for pool in index.held[run])
        suiting: dict[int, list[int]] = {}
        for number in index.choices[run]:
            for rack, pools in enumerate(index.rack_pools[number]):
                if pools:
                    suiting.setdefault(rack, []).extend(pools)
        found = [_Zone(tuple(suiting.pop(rack, [])), 1, None) for rack in held_racks]
        if not self.is_lumped:
            return found + [_Zone(tuple(pools), 1, None) for pools in suiting.values()]
        like: dict[int, set[int]] = defaultdict(set)  # by lump: positions that suit in any of its racks
        counts: dict[int, int] = defaultdict(int)
        for rack, pools in suiting.items():
            like[self.lump_of[rack]].update(self.pools_of[rack].index(pool) for pool in pools)
            counts[self.lump_of[rack]] += 1
        return found + [
            _Zone(tuple(self.pools_of[self.lumps[lump][0]][n] for n in sorted(positions)), counts[lump], lump)
            for lump, positions in like.items()
        ]

    def add(self, run: int) -> None:
        """Add a run's columns and the rows that are its own."""
        index, programme = self.index, self.programme
        about, held, place = index.problem.runs[run], index.held[run], self.places[run]
        total: dict[int, int] = {}
        by_sku: dict[str, dict[int, int]] = defaultdict(dict)
        step = about.units if about.needs.shared else 1
        stay: dict[int, int] = {}
        rack_columns: dict[int, dict[int, int]] = defaultdict(dict)
        for pool, units in held.items():
            unfit = about.unfit_cost if pool in index.unfit[run] else 0
            start = min(units, place.get(pool, 0))
            column = programme.column((unfit - about.move_cost) * step, units // step, start // step)
            programme.origin[column] = (run, pool, step)
            total[column] = stay[column] = step
            self.kept[column] = step * index.gpus[pool]
            by_sku[index.problem.pools[pool].kind.sku][column] = step
            self._take(column, pool, step, units)
            rack_columns[index.rack_of[pool]][column] = step
        programme.constant += about.move_cost * about.units if held else 0
        spans: dict[int, int] = {}
        for zone in self.zones(run):
            self._zone(run, zone, step, total, by_sku, rack_columns, spans)
        for rack, columns in rack_columns.items():
            self._span(run, rack, columns, spans)
        self._own(run, total, by_sku, spans, stay)

    def _zone(
        self,
        run: int,
        zone: _Zone,
        step: int,
        total: dict[int, int],
        by_sku: dict[str, dict[int, int]],
        rack_columns: dict[int, dict[int, int]],
        spans: dict[int, int],
    ) -> None:
        index, programme = self.index, self.programme
        units, held, place = index.problem.runs[run].units, index.held[run], self.places[run]
        inside: dict[int, int] = {}
        for pool in zone.pools:
            room = self._room(zone, pool)
            most = min(units, room * zone.count)
            if room < step or (step > 1 and pool in held):
                continue  # the one pool that a shared run has is its kept column
            column = programme.column(
                0, most // step, (place.get(pool, 0) - min(held.get(pool, 0), place.get(pool, 0))) // step
            )
            total[column] = step
            by_sku[index.problem.pools[pool].kind.sku][column] = step
            if zone.lump is None:
                programme.origin[column] = (run, pool, step)
                self._take(column, pool, step, most)
                rack_columns[index.rack_of[pool]][column] = step
            else:
                position = self.pools_of[index.rack_of[pool]].index(pool)
                self.in_lump[zone.lump, position][column] = step
                inside[column] = step
        if inside and step == 1:
            room = min(units, sum(self._room(zone, pool) for pool in zone.pools))
            span = programme.column(index.problem.runs[run].span_cost, zone.count)
            spans[span] = 1
            programme.row({**inside, span: -room}, -INFINITY, 0)

    def _room(self, zone: _Zone, pool: int) -> int:
        """Return what is free in the pool, or at most in its like in any rack of the lump."""
        if zone.lump is None:
            return self.free[pool]
        return self.lump_most[zone.lump][self.pools_of[self.index.rack_of[pool]].index(pool)][0]

    def _take(self, column: int, pool: int, step: int, most: int) -> None:
        self.in_pool[pool][column] = step
        if self.index.open_cost[pool] and not self.is_open[pool]:
            self.opened[pool].append((column, most // step))

    def _span(self, run: int, rack: int, columns: dict[int, int], spans: dict[int, int]) -> None:
        """Add the column that says whether the run is in this rack. A shared run is in one: its columns say it."""
        about = self.index.problem.runs[run]
        if about.needs.shared:
            self.spans[run][rack] = list(columns)
            return
        pools = [self.programme.origin[column][1] for column in columns]
        room = min(about.units, sum(self.free[pool] for pool in dict.fromkeys(pools)))
        is_there = any(self.places[run].get(pool, 0) for pool in pools)
        span = self.programme.column(about.span_cost, 1, int(is_there))
        spans[span] = 1
        self.spans[run][rack] = [span]
        self.programme.row({**columns, span: -room}, -INFINITY, 0)

    def _own(
        self,
        run: int,
        total: dict[int, int],
        by_sku: dict[str, dict[int, int]],
        spans: dict[int, int],
        stay: dict[int, int],
    ) -> None:
        programme, about, held = self.programme, self.index.problem.runs[run], self.index.held[run]
        if held:
            programme.row(total, about.units, about.units)
            runs, needed = dict[int, int](), 1.0
            programme.constant -= about.span_cost if spans else 0
        else:
            placed = programme.column(
                -about.waiting_cost - (about.span_cost if spans else 0), 1, int(bool(self.places[run]))
            )
            programme.constant += about.waiting_cost
            programme.row({**total, placed: -about.units}, 0, 0)
            runs, needed = {placed: -1}, 0.0
        if spans:
            fewest = self._fewest_racks(run)
            programme.row({**spans, **dict.fromkeys(runs, -fewest)}, fewest * needed, self.index.rack_limit[run])
        if len(by_sku) > 1 and not about.needs.mixes_skus:
            chosen = {}
            for columns in by_sku.values():
                is_there = any(programme.start[column] for column in columns)
                one = programme.column(0, 1, int(is_there))
                chosen[one] = 1
                programme.row({**columns, one: -about.units}, -INFINITY, 0)
            programme.row(chosen, 0, 1)
        if held and about.restart_cost:
            moves = any(programme.start[column] < programme.upper[column] for column in stay)
            restart = programme.column(about.restart_cost, 1, int(moves))
            for column in stay:
                programme.row({column: 1, restart: programme.upper[column]}, programme.upper[column], INFINITY)

    def _fewest_racks(self, run: int) -> int:
        """Return how many racks the run takes at least, were the fleet empty of what may move."""
        index = self.index
        suiting = {pool for number in index.choices[run] for pools in index.rack_pools[number] for pool in pools}
        room: dict[int, int] = defaultdict(int)
        for pool in suiting | set(index.held[run]):
            room[index.rack_of[pool]] += self.free[pool]
        left, count = index.problem.runs[run].units, 0
        for most in sorted(room.values(), reverse=True):
            if left <= 0:
                break
            left, count = left - most, count + 1
        return max(1, count)

    def finish(self) -> Programme:
        """Add what runs share: capacities, opened pools, what may move, and who is apart from whom."""
        index, programme = self.index, self.programme
        for pool, columns in self.in_pool.items():
            programme.row(columns, 0, self.free[pool])
            if self.opened[pool]:
                is_open = any(programme.start[column] for column, _ in self.opened[pool])
                opening = programme.column(index.open_cost[pool], 1, int(is_open))
                self.opening[pool] = opening
                programme.row({**columns, opening: -self.free[pool]}, -INFINITY, 0)
                for column, most in self.opened[pool]:
                    programme.row({column: 1, opening: -most}, -INFINITY, 0)
            if self.is_lumped:
                rack = index.rack_of[pool]
                self.in_lump[self.lump_of[rack], self.pools_of[rack].index(pool)].update(columns)
        programme.constant += sum(cost for cost, used in zip(index.open_cost, self.is_open, strict=True) if used)
        self._lump_rows()
        limit = index.problem.limits.moved_gpus_max
        if limit is not None:
            everything = sum(
                units * index.gpus[pool]
                for run, held in enumerate(index.held)
                if not index.fixed[run]
                for pool, units in held.items()
            )
            programme.row(dict(self.kept), everything - limit, INFINITY)
        self._apart()
        return programme

    def _lump_rows(self) -> None:
        for (lump, position), columns in self.in_lump.items():
            own = [self.pools_of[rack][position] for rack in self.lumps[lump]]
            most, room = self.lump_most[lump][position]
            self.programme.row(dict(columns), 0, room)
            if not self.index.open_cost[own[0]]:
                continue
            # Full pools hold what they hold, whoever is in them: those open anyway, the known ones, and so many more.
            extra = self.programme.column(self.index.open_cost[own[0]], len(own))
            openings = [self.opening[real] for real in own if real in self.opening]
            row = {**columns, **dict.fromkeys([extra, *openings], -most)}
            self.programme.row(row, -INFINITY, sum(self.free[real] for real in own if self.is_open[real]))

    def _apart(self) -> None:
        index, seen = self.index, set[tuple[int, int]]()
        for run, others in enumerate(index.apart):
            for other in others:
                pair = (min(run, other), max(run, other))
                if pair not in seen:
                    seen.add(pair)
                    self._pair(*pair)

    def _pair(self, one: int, other: int) -> None:
        index, rack_of = self.index, self.index.rack_of
        now = [{rack_of[pool] for pool in index.held[run]} for run in (one, other)]
        for rack in self._racks(one) & self._racks(other) - (now[0] & now[1]):
            columns = [*self.spans[one].get(rack, ()), *self.spans[other].get(rack, ())]
            there = sum(index.fixed[run] and rack in racks for run, racks in zip((one, other), now, strict=True))
            if columns:
                self.programme.row(dict.fromkeys(columns, 1), 0, 1 - there)

    def _racks(self, run: int) -> set[int]:
        fixed = {self.index.rack_of[pool] for pool in self.index.held[run]} if self.index.fixed[run] else set[int]()
        return fixed | set(self.spans[run])


def programme_of(index: Index, places: list[Place], is_lumped: bool) -> Programme:
    """Return the programme; columns start where `places` are (meant for the full one only)."""
    builder = _Builder(index, places, is_lumped)
    for run, fixed in enumerate(index.fixed):
        if fixed:
            builder.programme.constant += fixed_cost(index, run)
        else:
            builder.add(run)
    return builder.finish()


def fixed_cost(index: Index, run: int) -> int:
    """Return what a run costs that cannot move: it is where it is."""
    about, held = index.problem.runs[run], index.held[run]
    if not held:
        return about.waiting_cost
    unfit = about.unfit_cost * sum(held[pool] for pool in index.unfit[run])
    return unfit + about.span_cost * (len({index.rack_of[pool] for pool in held}) - 1)
