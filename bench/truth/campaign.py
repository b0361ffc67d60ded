"""Make a seed's runs, let the analyzer book them, and count how right it was.

A seed is four fleets, since a fleet is of one GPU and sampled in one way: H100 with GPM or A100 without, every second
or every ten. The analyzer learns from the fleet in its store, and memory stays in bounds.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from bench.truth.design import cells
from bench.truth.draw import A100, H100, Cell
from bench.truth.rows import end_of_day, fill
from bench.truth.runs import SimulatedRun
from bench.truth.score import score
from bench.truth.tally import Key, Tally, summed
from collector.store.database import Store

PRICES = {H100.sku: 2.60, A100.sku: 1.10}  # invented; that both sides use the same is all that matters
MEMORY = "2GB"


@dataclass(frozen=True, slots=True)
class Seed:
    """What came of one seed."""

    seed: int
    tallies: dict[Key, Tally]
    runs: int
    samples: int
    rules: str  # version of what judged
    seconds: dict[str, float]  # made and landed, analysed, scored


def run_seed(seed: int, names: Sequence[str] = (), *, both: bool = False) -> Seed:
    """Make, book and score one seed."""
    tallies: dict[Key, Tally] = {}
    rules: set[str] = set()
    runs = samples = 0
    spent = {"made": 0.0, "analysed": 0.0, "scored": 0.0}
    ordered = sorted(cells(seed, names, both=both), key=_fleet)
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(prices=price_file(Path(directory)), memory_limit=MEMORY, threads=1)
        for _, fleet in groupby(ordered, key=_fleet):
            made = [run for cell in fleet for own in [SimulatedRun.make(cell)] for run in (own, *own.beside())]
            found, count = _run_fleet(made, Path(directory), settings, spent, tallies, rules)
            runs, samples = runs + found, samples + count
    (version,) = rules
    return Seed(seed, tallies, runs, samples, version, {name: round(seconds, 1) for name, seconds in spent.items()})


def _run_fleet(
    runs: list[SimulatedRun],
    directory: Path,
    settings: Settings,
    spent: dict[str, float],
    tallies: dict[Key, Tally],
    rules: set[str],
) -> tuple[int, int]:
    # In a file: a database in memory that must give way under its limit ends in an assertion of DuckDB 1.5.
    with Store.open(directory / f"{len(tallies)}.duckdb", memory_limit=MEMORY, threads=1) as store:
        began = time.monotonic()
        samples = fill(store, runs)
        landed = time.monotonic()
        analyze(store, settings, now_us=end_of_day())
        analysed = time.monotonic()
        with store.session() as session:
            tallies.update(score(session, runs, PRICES))
            rules |= {version for (version,) in session.rows("SELECT DISTINCT rules_version FROM ledger")}
    spent["made"] += landed - began
    spent["analysed"] += analysed - landed
    spent["scored"] += time.monotonic() - analysed
    return len(runs), samples


def added(seeds: Sequence[Seed]) -> dict[Key, Tally]:
    """Return the tallies of all seeds, cell by cell."""
    keys = dict.fromkeys(key for seed in seeds for key in seed.tallies)
    return {key: summed(seed.tallies[key] for seed in seeds if key in seed.tallies) for key in keys}


def price_file(directory: Path) -> Path:
    """Write the prices and return the file."""
    path = directory / "prices.toml"
    path.write_text(
        "\n".join(
            f'[[price]]\nsku = "{sku}"\npurchase_option = "any"\nusd_per_gpu_hour = {price}\nfrom = 2020-01-01\n'
            f'as_of = 2026-01-01\nsource = "invented for bench/truth"\n'
            for sku, price in PRICES.items()
        )
    )
    return path


def _fleet(cell: Cell) -> tuple[bool, int]:
    return cell.gpm, cell.every
