"""What boards are built for: their power limit as delivered, and the clock that their maker rates them at under load.

A board that draws what it may and clocks below its highest clock does what it was built to do, and loses nothing by
it: the driver's highest clock (`nvmlDeviceGetMaxClockInfo`) is reached by none under load. Figures are of the makers'
data sheets and product briefs, November 2026. Of a kind that is not listed, what the site's own boards are allowed at
the most stands for the limit, and the driver's highest clock for the rated one. Who changes a figure raises the rules'
version of throttling (thresholds.py).
"""

from typing import NamedTuple

from analyzer.ledger.thresholds import Thresholds
from collector.store.session import Session


class Board(NamedTuple):
    """One make of a kind of GPU: its power limit as delivered, in watts, and its rated boost clock in megahertz."""

    sku: str
    limit_watts: int
    boost_megahertz: int


# A kind that is built in several makes has a row for each: the make of a board is the first that its limit fits into.
BOARDS = (
    Board("GB200-186GB", 1200, 2062),
    Board("B200-180GB", 1000, 1965),
    Board("GH200-96GB", 900, 1980),
    Board("H200-141GB", 700, 1980),
    Board("H100-80GB", 350, 1755),  # PCIe
    Board("H100-80GB", 700, 1980),  # SXM5
    Board("H100-NVL-94GB", 400, 1785),
    Board("H20-96GB", 500, 1980),
    Board("H800-80GB", 350, 1755),
    Board("H800-80GB", 700, 1980),
    Board("A100-80GB", 300, 1410),
    Board("A100-80GB", 400, 1410),
    Board("A100-40GB", 250, 1410),
    Board("A100-40GB", 400, 1410),
    Board("A800-80GB", 300, 1410),
    Board("A800-80GB", 400, 1410),
    Board("A30-24GB", 165, 1440),
    Board("A40-48GB", 300, 1740),
    Board("A10-24GB", 150, 1695),
    Board("A10G-24GB", 300, 1710),
    Board("L4-24GB", 72, 2040),
    Board("L40-48GB", 300, 2490),
    Board("L40S-48GB", 350, 2520),
    Board("T4-16GB", 70, 1590),
    Board("V100-16GB", 250, 1380),
    Board("V100-16GB", 300, 1530),
    Board("V100-32GB", 250, 1380),
    Board("V100-32GB", 300, 1530),
    Board("RTX-6000-Ada-48GB", 300, 2505),
    Board("RTX-5000-Ada-32GB", 250, 2550),
    Board("RTX-A6000-48GB", 300, 1800),
    Board("RTX-A5000-24GB", 230, 1695),
    Board("RTX-A4000-16GB", 140, 1560),
    Board("RTX-6000-24GB", 260, 1770),
    Board("RTX-5090-32GB", 575, 2407),
    Board("RTX-5080-16GB", 360, 2617),
    Board("RTX-4090-24GB", 450, 2520),
    Board("RTX-4080-SUPER-16GB", 320, 2550),
    Board("RTX-4080-16GB", 320, 2505),
    Board("RTX-4070-Ti-12GB", 285, 2610),
    Board("RTX-3090-Ti-24GB", 450, 1860),
    Board("RTX-3090-24GB", 350, 1695),
    Board("RTX-3080-10GB", 320, 1710),
    Board("RTX-3080-12GB", 350, 1710),
    Board("RTX-3070-8GB", 220, 1725),
    Board("RTX-2080-Ti-11GB", 250, 1545),
    Board("GTX-1080-Ti-11GB", 250, 1582),
)


# As lists that DuckDB reads at once; readers, who ask for these too, need no Arrow table for them.
_COLUMNS = ", ".join(
    f"unnest('[{', '.join(map(str, column))}]'::{type_}[]) AS {name}"
    for name, type_, column in (
        ("sku", "VARCHAR", [board.sku for board in BOARDS]),
        ("limit_watts", "DOUBLE", [board.limit_watts for board in BOARDS]),
        ("boost_hertz", "DOUBLE", [board.boost_megahertz * 1_000_000 for board in BOARDS]),
    )
)


def load_boards(session: Session, limits: Thresholds) -> None:
    """Fill the temporary table `boards`, and make the macros by which a board's power limit is judged, in watts.

    `usual_limit(kind, own)` is the limit of the make that a board's own limit fits into, else of the largest make, and
    null for a kind without a row; `reaches_limit(own, usual)` says that it is not capped, `draws_limit(drawn, own)`
    that it draws all that it may. `spins(…)` says that a GPU is busy as its driver reports it, while chip and
    memory do next to nothing and nothing is sent: among several, it waits for the others.
    """
    session.execute(f"CREATE OR REPLACE TEMP TABLE boards AS SELECT {_COLUMNS}")
    for macro in (
        f"reaches_limit(own, usual) AS own >= usual * {limits.limit_reached_permille} / 1000",
        f"draws_limit(drawn, own) AS drawn >= own * {limits.limit_drawn_permille} / 1000",
        "usual_limit(kind, own) AS (SELECT coalesce(min(limit_watts) FILTER (own IS NULL "
        f"OR limit_watts >= own * {limits.limit_reached_permille} / 1000), max(limit_watts)) "
        "FROM boards WHERE sku = kind)",
        # Columns one by one: a row as a whole would have every column of it read.
        "spins(utilization, sm, tensor, dram, memory, drawn, own, sent, us) AS coalesce("
        f"1000 * utilization >= {limits.spins_utilization_permille} AND if(sm IS NULL, "
        f"coalesce(1000 * memory <= {limits.spins_memory_permille}, true) AND coalesce(1000 * drawn <= greatest("
        # Of which memory is not told, power has to be as low as no kernels leave it, and the other way round.
        f"own * if(memory IS NULL, {limits.spins_power_alone_permille}, {limits.spins_power_permille}), "
        f"{1000 * limits.spins_least_watts}), 1000 * memory <= {limits.quiet_permille}), "
        f"1000 * sm <= if(1000 * (tensor + dram) <= {limits.quiet_permille}, {limits.launching_activity_permille}, "
        f"{limits.spinning_permille}) AND 1000 * (tensor + dram) <= {limits.spins_memory_permille}) "
        f"AND sent <= us * {limits.spins_link_kb_per_ms}, false)",
    ):
        session.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
