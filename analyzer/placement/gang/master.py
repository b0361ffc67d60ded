"""The master of a bound by patterns: a linear programme over fillings of bins, which grows while they are found.

Rows: each run's units, its number of bins, and its pieces rounded up; a filling a bin; units that stay, by run and bin,
against the restart; GPUs that must stay in all. What the duals say is turned into a bound that holds whatever they are
(Lagrange), so that nothing rests on the linear programme having been solved to the end.
"""

from typing import Any

from analyzer.placement.gang.bins import Bins
from analyzer.placement.gang.highs import Rows
from analyzer.placement.gang.pricing import Filler, Pattern, Prices

SCALE = 10_000.0  # of the largest cost in the programme
Limits = list[tuple[int, int]]  # by run: fewest and most bins


class Master:
    """Rows, the columns found so far, and the values of both."""

    def __init__(self, bins: Bins) -> None:
        self.bins = bins
        costs = [max(g.span_cost, g.restart_cost, g.move_cost, g.unfit_cost, g.waiting_cost) for g in bins.gangs]
        self.scale = max([*costs, *bins.open_cost, 1]) / SCALE
        self.filler = Filler(bins, [cost / self.scale for cost in bins.open_cost])
        self.rows = Rows()
        self.constant = float(bins.constant)
        self.patterns: list[tuple[int, Pattern]] = []  # of the columns after the first ones
        self._seen: set[Any] = set()
        self._unit: list[list[int]] = []
        self._bins: list[int | None] = []  # None: in one bin, as the units say
        self._counts: list[list[int]] = []
        self._one: list[int | None] = []
        self._stay: dict[tuple[int, int], int] = {}
        self._stays: list[list[tuple[int, int, int]]] = []  # by run: row, what it asks, what a restart gives of it
        self._scattered: list[int | None] = []  # by run: bins, and those that it leaves where it restarts
        for run in range(len(bins.gangs)):
            self._add_run(run)
        self._bin = [self.rows.row(-self.rows.infinity, 1) for _ in bins.bins]
        least = bins.kept_gpus_min
        self._kept = None if least is None else self.rows.row(least, self.rows.infinity)
        for run in range(len(bins.gangs)):
            self._add_columns(run)
        self._first = self.rows.columns
        for placed in ([gang.held for gang in bins.gangs], [gang.start for gang in bins.gangs]):
            self._add_places([dict(place) for place in placed])

    def _add_run(self, run: int) -> None:
        gang, rows = self.bins.gangs[run], self.rows
        needed = 1 if gang.is_settled else 0  # of what is placed; else what the ways that are chosen ask for
        self._unit.append([rows.row(needed * gang.units, needed * gang.units) for _ in gang.ways])
        self._bins.append(None if gang.is_whole else rows.row(gang.fewest if gang.held else 0, gang.most))
        self._counts.append([rows.row(needed * count.least, rows.infinity) for count in gang.counts])
        is_chosen = bool(gang.ways) and not gang.is_settled
        self._one.append(rows.row(1 if gang.held else 0, 1) if is_chosen else None)
        stays: dict[int, int] = {}
        if gang.held:
            self.constant += gang.move_cost * gang.units - gang.span_cost
            for pool, units in gang.held:
                number = self.bins.bin_of[pool]
                stays[number] = stays.get(number, 0) + units
        else:
            self.constant += gang.waiting_cost
        if gang.held and gang.is_whole:  # moves wholly, or not at all: what it costs lies with its one piece
            self.constant += gang.restart_cost
        if gang.is_whole or not gang.restart_cost:
            stays = {}
        self._stays.append([])
        self._scattered.append(None)
        if len(stays) > gang.fewest:
            self._add_scattered(run, stays)
            return
        for number, units in stays.items():
            self._stay[run, number] = row = rows.row(units, rows.infinity)
            self._stays[run].append((row, units, units))

    def _add_scattered(self, run: int, stays: dict[int, int]) -> None:
        """Let one that lies in more bins than it must restart, or be in all of them: two rows instead of one a bin."""
        gang, rows = self.bins.gangs[run], self.rows
        units = rows.row(gang.units, rows.infinity)
        for number in stays:
            self._stay[run, number] = units
        self._scattered[run] = scattered = rows.row(len(stays), rows.infinity)
        self._stays[run] += [(units, gang.units, gang.units), (scattered, len(stays), len(stays) - gang.fewest)]

    def _add_columns(self, run: int) -> None:
        """Add which way is taken, whether it restarts, and what stands in for a place while fillings are few."""
        gang, rows = self.bins.gangs[run], self.rows
        one = self._one[run]
        cost = 0 if gang.held else -gang.waiting_cost - gang.span_cost
        for unit in [] if one is None else self._unit[run]:
            entries = {unit: -gang.units, **({} if one is None else {one: 1})}
            for row, count in zip(self._counts[run], gang.counts, strict=True):
                entries[row] = -count.least
            rows.column(cost / self.scale, rows.infinity, entries)
        if self._stays[run]:
            rows.column(gang.restart_cost / self.scale, 1, {row: given for row, _, given in self._stays[run]})
        dear = max(gang.span_cost, gang.restart_cost, gang.waiting_cost, max(self.bins.open_cost, default=0), 1)
        for unit in self._unit[run]:
            standing = {unit: gang.units, **dict.fromkeys(self._bin_rows(run), gang.fewest)}
            for row, count in zip(self._counts[run], gang.counts, strict=True):
                standing[row] = count.least
            cost = gang.fewest * gang.span_cost + gang.units * dear
            rows.column(cost / self.scale, rows.infinity, standing)
        if inside := self._bin_rows(run):
            rows.column(2 * dear / self.scale, rows.infinity, dict.fromkeys(inside, 1))

    def _bin_rows(self, run: int) -> list[int]:
        """Return the rows that count in how many bins the run is."""
        return [row for row in (self._bins[run], self._scattered[run]) if row is not None]

    def _add_places(self, places: list[dict[int, int]]) -> None:
        found: list[Pattern] = [{} for _ in self.bins.bins]
        for run, place in enumerate(places):
            for pool, units in place.items():
                found[self.bins.bin_of[pool]].setdefault(run, {})[pool] = units
        for number, pattern in enumerate(found):
            if pattern:
                self.add(number, pattern)

    def add(self, number: int, pattern: Pattern) -> None:
        """Add a filling of a bin, unless it is there."""
        key = (number, tuple(sorted((run, tuple(sorted(piece.items()))) for run, piece in pattern.items())))
        if key in self._seen:
            return
        self._seen.add(key)
        entries: dict[int, int] = {self._bin[number]: 1}
        pools = {pool for piece in pattern.values() for pool in piece}
        cost = sum(self.bins.open_cost[pool] for pool in pools)
        for run, piece in pattern.items():
            cost += self._piece(run, number, piece, entries)
        self.patterns.append((number, pattern))
        self.rows.column(cost / self.scale, self.rows.infinity, entries)

    def _piece(self, run: int, number: int, piece: dict[int, int], entries: dict[int, int]) -> int:
        gang, held, ways = self.bins.gangs[run], self.filler.held[run], self.filler.way_of[run]
        units = sum(piece.values())
        stay = sum(min(n, held.get(pool, 0)) for pool, n in piece.items())
        for row in self._bin_rows(run):
            entries[row] = 1
        for row, count in zip(self._counts[run], gang.counts, strict=True):
            entries[row] = count.of[units - 1]
        for pool, n in piece.items():
            unit = self._unit[run][ways[pool]]
            entries[unit] = entries.get(unit, 0) + n
        if stay and (run, number) in self._stay:
            entries[self._stay[run, number]] = stay
        if stay and self._kept is not None:
            entries[self._kept] = entries.get(self._kept, 0) + stay * gang.gpus
        unfit = sum(n for pool, n in piece.items() if pool in gang.unfit)
        restart = gang.restart_cost if stay and gang.is_whole else 0
        return gang.span_cost - gang.move_cost * stay - restart + gang.unfit_cost * unfit

    def limit(self, limits: Limits) -> None:
        """Let each run take so many bins, fewest and most."""
        for row, gang, (fewest, most) in zip(self._bins, self.bins.gangs, limits, strict=True):
            if row is not None:
                self.rows.bounds(row, fewest if gang.held else 0, most)

    def solved(self) -> tuple[float, list[float]]:
        """Solve; return the value and the duals, both in costs of the programme."""
        value, duals = self.rows.solved()
        return value + self.constant / self.scale, duals

    def first_prices(self) -> list[float]:
        """Return prices to begin with: a bin is worth its span, and a unit that stays its share of the restart."""
        prices = [0.0] * self.rows.count
        for run, gang in enumerate(self.bins.gangs):
            row = self._bins[run]
            if row is not None:
                prices[row] = gang.span_cost / self.scale
        for (run, _), row in self._stay.items():
            gang = self.bins.gangs[run]
            prices[row] = gang.restart_cost / gang.units / self.scale
        return prices

    def bins_taken(self) -> list[float]:
        """Return by run in how many bins the solution has it."""
        taken = [0.0] * len(self.bins.gangs)
        for (_, pattern), value in zip(self.patterns, self.rows.values()[self._first :], strict=True):
            if value > 1e-9:
                for run in pattern:
                    taken[run] += value
        return taken

    def bound(self, duals: list[float], limits: Limits) -> tuple[float, int]:
        """Return what no plan costs less than, by these duals; add the fillings that they ask for, and say how many."""
        prices = self._prices(duals)
        bound = self.constant / self.scale
        added = 0
        for number, (worth, pattern) in enumerate(self.filler.patterns(prices)):
            bound -= worth
            if worth + duals[self._bin[number]] > 1e-7:
                count = len(self.patterns)
                self.add(number, pattern)
                added += len(self.patterns) - count
        for run, (fewest, most) in enumerate(limits):
            bound += self._run_bound(run, duals, fewest, most)
        if self._kept is not None and self.bins.kept_gpus_min is not None:
            bound += max(0.0, duals[self._kept]) * self.bins.kept_gpus_min
        return bound, added

    def _run_bound(self, run: int, duals: list[float], fewest: int, most: int) -> float:
        gang, bins = self.bins.gangs[run], self._bins[run]
        price = 0.0 if bins is None else duals[bins]
        bound = price * ((fewest if gang.held else 0) if price > 0 else most)
        counted = sum(
            max(0.0, duals[row]) * count.least for row, count in zip(self._counts[run], gang.counts, strict=True)
        )
        ways = [gang.units * duals[unit] + counted for unit in self._unit[run]]
        if gang.held:
            bound += min(ways, default=0.0)
        elif ways:
            bound += min(0.0, min(ways) - (gang.waiting_cost + gang.span_cost) / self.scale)
        prices = [(max(0.0, duals[row]), asked, given) for row, asked, given in self._stays[run]]
        restarting = gang.restart_cost / self.scale - sum(price * given for price, _, given in prices)
        return bound + sum(price * asked for price, asked, _ in prices) + min(0.0, restarting)

    def _prices(self, duals: list[float]) -> Prices:
        gangs, scale = self.bins.gangs, self.scale
        kept = 0.0 if self._kept is None else max(0.0, duals[self._kept])
        return Prices(
            unit=[[duals[row] for row in rows] for rows in self._unit],
            bin_=[
                (0.0 if row is None else duals[row])
                + (0.0 if scattered is None else max(0.0, duals[scattered]))
                - gang.span_cost / scale
                for row, scattered, gang in zip(self._bins, self._scattered, gangs, strict=True)
            ],
            counts=[[max(0.0, duals[row]) for row in rows] for rows in self._counts],
            stay={key: max(0.0, duals[row]) for key, row in self._stay.items()},
            moving=[
                (gang.move_cost + (gang.restart_cost / gang.units if gang.is_whole else 0)) / scale + kept * gang.gpus
                for gang in gangs
            ],
            unfit=[gang.unfit_cost / scale for gang in gangs],
        )
