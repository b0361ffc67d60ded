"""What each table of a page must print, made from its sheet alone: one function a sheet, and one cell a column.

A cell is a text, printed as it is, or an exact number that may be a unit of its last place off, where a column is
rounded so that it adds up as printed.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction

from agent.wire.units import HOUR_MS, MICROS
from analyzer.finops.unit_cost.text import digits, short
from analyzer.finops.unit_cost.units import UNITS
from analyzer.interfaces.doctor.sight import length_words, size
from analyzer.period import local
from analyzer.states import CLASSES
from analyzer.text.words import (
    UNKNOWN,
    amount,
    bytes_words,
    day,
    dollars,
    gpu_hours,
    moment_words,
    money_decimals,
    percent,
)
from dashboards.pages.health import BARS
from dashboards.pages.money import BEARERS, NOBODY

Row = dict[str, str]
_BEARERS: dict[str, str] = {str(by): words for by, words in BEARERS.items()}
Cell = str | Fraction | None  # None: the cell says what no sheet can; UNTOLD names such columns
Rows = list[list[Cell]]
UNTOLD = {
    "by day": "the trend of five weeks, of which the sheet has two sums",
    "top runs": "names of runs, which are links",
    "spend to date and forecast": "a picture of the cells beside it",
}
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000


def _number(text: str) -> int:
    return int(text or 0)


def _micros(text: str) -> str:
    return amount(int(text), money_decimals(int(text))) if text else UNKNOWN


def _classes(row: Row, unit: str) -> list[int]:
    return [_number(row[f"{name}_{unit}"]) for name in CLASSES]


def _bar(weights: Sequence[int]) -> str:
    """Return what is said of a bar."""
    told = (f"{name} {percent(each, sum(weights))}" for name, each in zip(CLASSES, weights, strict=True) if each)
    return ", ".join(told)


def _added(rows: Iterable[Row]) -> Row:
    """Return the sums of the columns that count."""
    found: dict[str, int] = {}
    for row in rows:
        for name, text in row.items():
            if name.endswith(("milliseconds", "micros", "bytes")) or name == "gpus":
                found[name] = found.get(name, 0) + _number(text)
    return {name: str(value) for name, value in found.items()}


def costs(rows: list[Row], _: str) -> Rows:
    """Return the table of costs: whoever bears them, and the total."""
    by = next(iter(rows[0]))
    found = [_cost(_bearer(row, by), row, is_held=row["held"] == "True") for row in rows]
    return [*found, _cost("total", _added(rows), is_held=True)]


def _bearer(row: Row, by: str) -> str:
    if row[by]:
        return row[by]
    words = "unmapped" if by == "team" else f"{_BEARERS[by]} unknown"
    return words if row["held"] == "True" else NOBODY


def _cost(name: str, row: Row, *, is_held: bool) -> list[Cell]:
    weights, silent = _classes(row, "cost_micros"), _number(row["not_measured_cost_micros"])
    useful = percent(weights[0], sum(weights) - silent) if is_held else UNKNOWN
    lost = _number(row["avoidable_milliseconds"])
    is_silent = not is_held or _number(row["not_measured_milliseconds"]) >= max(1, _number(row["milliseconds"]))
    avoidable: Cell = UNKNOWN if not lost and is_silent else Fraction(_number(row["avoidable_cost_micros"]), MICROS)
    hours = Fraction(_number(row["milliseconds"]), HOUR_MS)
    return [name, _bar(weights), hours, Fraction(_number(row["cost_micros"]), MICROS), useful, avoidable]


def days(rows: list[Row], _: str) -> Rows:
    """Return the numbers of the chart by day."""
    return [[_day(row["day"]), *(f"{each / MICROS:,.2f}" for each in _classes(row, "cost_micros"))] for row in rows]


def _day(text: str) -> str:
    return day(datetime.fromisoformat(text))


def budgets(rows: list[Row], _: str) -> Rows:
    """Return the month against its budgets, the fleet as its total."""
    found: Rows = []
    for row in rows:
        name = "total" if row["name"] == "the whole fleet" else row["name"]
        budget = amount(int(row["budget_micros"]), 0) if row["budget_micros"] else UNKNOWN
        ends: Cell = Fraction(int(row["expected_micros"]), MICROS) if row["expected_micros"] else UNKNOWN
        found.append([name, None, Fraction(int(row["spent_micros"]), MICROS), budget, ends, row["verdict"]])
    return found


def burn(rows: list[Row], _: str) -> Rows:
    """Return the month's days."""
    return [[_day(row["day"]), amount(int(row["spent_micros"])), amount(int(row["together_micros"]))] for row in rows]


def units(rows: list[Row], _: str) -> Rows:
    """Return what a unit of work costs, and how that moved."""
    found: Rows = []
    by = {unit.column: unit for unit in UNITS}
    for row in rows:
        unit, done, micros = by[row["unit"]], int(row["units"]), row["cost_micros"]
        each = digits(int(micros) * unit.per / done / MICROS) if micros else UNKNOWN
        moved = UNKNOWN
        if micros and row["units_before"] and row["cost_micros_before"]:
            before = Fraction(int(row["cost_micros_before"]), int(row["units_before"]))
            moved = f"{100 * float(Fraction(int(micros), done) / before - 1):+.1f}"
        found.append([row["name"], unit.words, short(done), _micros(micros), each, moved, None])
    return found


def runs(rows: list[Row], _: str) -> Rows:
    """Return the middle one of whole runs of a name."""
    found: Rows = []
    for row in rows:
        now, before = row["cost_micros_p50"], row["cost_micros_p50_before"]
        moved = f"{100 * (int(now) / int(before) - 1):+.1f}" if now and before and int(before) else UNKNOWN
        costs = (amount(int(now)) if now else UNKNOWN, amount(int(before)) if before else UNKNOWN)
        hours = gpu_hours(int(row["milliseconds_p50"]))
        found.append([row["name"], f"{int(row['gpus']):,}", f"{int(row['runs']):,}", hours, *costs, moved])
    return found


def prices(rows: list[Row], _: str) -> Rows:
    """Return the book of prices, with how old each is today."""
    found: Rows = []
    today = datetime.now(UTC).date()
    for row in rows:
        until = f" until {_date(row['until_us'])}" if row["until_us"] else ""
        group = f", {row['node_group']}" if row["node_group"] else ""
        bought = (row["purchase_option"] or "any").replace("_", " ") + group
        age = (today - date.fromisoformat(row["as_of"])).days
        checked = "today" if age <= 0 else f"{age:,} day{'' if age == 1 else 's'} ago"
        price = dollars(int(row["micros_per_gpu_hour"]))
        found.append([row["sku"], bought, price, f"{_date(row['from_us'])}{until}", row["source"], checked])
    return found


def _date(microseconds: str) -> date:
    return datetime.fromtimestamp(int(microseconds) // MICROS, UTC).date()


def nodes(rows: list[Row], _: str) -> Rows:
    """Return every node: what it has, and how much of its time was held and useful."""
    return [
        [row["node"], _bar(_classes(row, "milliseconds")), row["skus"], *held_and_useful(row), None] for row in rows
    ]


def held_and_useful(row: Row) -> tuple[str, str]:
    """Return how much of a node's or a rack's time was held, and how much of what was measured of that was useful."""
    held = _number(row["held_milliseconds"])
    measured = held - _number(row["held_not_measured_milliseconds"])
    useful = percent(_number(row["held_useful_milliseconds"]), measured)
    return percent(held, sum(_classes(row, "milliseconds"))), useful


def racks(rows: list[Row]) -> dict[str, list[str]]:
    """Return what is said of each rack: how many nodes, how much was held, how much of that was useful, its bar."""
    found = {}
    for name in sorted({row["rack"] for row in rows}):
        own = [row for row in rows if row["rack"] == name]
        whole = _added(own)
        held, useful = held_and_useful(whole)
        skus = {row["skus"].partition(" ")[2] for row in own}  # of one kind a rack
        told = f"{len(own)} {'node' if len(own) == 1 else 'nodes'}, {whole['gpus']} {', '.join(skus)}"
        bar = _bar(_classes(whole, "milliseconds"))
        found[name or "rack unknown"] = [told, f"{held} held", f"{useful} of that useful", bar]
    return found


def traffic(rows: list[Row], _: str) -> Rows:
    """Return the matrix, with what each rack sent and received together."""
    cells = {(row["from"], row["to"]): int(row["bytes"]) for row in rows}
    names = {name for pair in cells for name in pair}
    order = sorted(names, key=lambda name: (name in ("rack unknown", "elsewhere"), name == "elsewhere", name))
    found: Rows = [
        [here, *(_bytes(cells.get((here, there), 0)) for there in order), _sent(cells, 0, here)] for here in order
    ]
    return [*found, ["received", *(_sent(cells, 1, name) for name in order), bytes_words(sum(cells.values()))]]


def _sent(cells: dict[tuple[str, str], int], end: int, name: str) -> str:
    return _bytes(sum(each for pair, each in cells.items() if pair[end] == name))


def _bytes(count: int) -> str:
    return bytes_words(count) if count else ""


def agents(rows: list[Row], _: str) -> Rows:
    """Return the agents, as of now."""
    found: Rows = []
    now = datetime.now(UTC).timestamp()
    for row in rows:
        seen, expected = row["gpus_seen"], row["gpus_expected"]
        gpus = UNKNOWN if not seen else f"{seen} of {expected}" if expected not in ("", seen) else seen
        heard = f"{length_words(now - int(row['heard_at_us']) / MICROS)} ago , silent"
        spool = size(int(row["spool_bytes"])) if row["spool_bytes"] else UNKNOWN
        clock = (
            f"{float(row['clock_offset_seconds'].lstrip(chr(39))):+.1f} s" if row["clock_offset_seconds"] else UNKNOWN
        )
        counts = [f"{int(row[name]):,}" if row[name] else UNKNOWN for name in ("dropped_batches", "gaps")]
        found.append([row["agent"], heard, gpus, spool, *counts, clock])
    return found


def coverage(rows: list[Row], zone: str) -> Rows:
    """Return the bars of a week; one of hours that nobody owned is empty."""
    first = int(rows[0]["hour_us"])
    at = local(first, zone)
    start = first - ((at.weekday() * 24 + at.hour) * HOUR_US)
    width = -(-7 * 24 // BARS) * HOUR_US
    found: Rows = []
    for bar in range(7 * DAY_US // width):
        own = [row for row in rows if start + bar * width <= int(row["hour_us"]) < start + (bar + 1) * width]
        owned = sum(int(row["owned_milliseconds"]) for row in own)
        shares = (
            sum(int(row[name]) for row in own) for name in ("not_measured_milliseconds", "unexplained_milliseconds")
        )
        told = [f"{round(100 * each / owned, 2):,.2f}" if owned else "" for each in shares]
        found.append([moment_words(start + bar * width, zone), *told])
    return found


def unjudged(rows: list[Row], _: str) -> Rows:
    """Return the rules that could not judge, and of how many subjects."""
    whom: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        whom.setdefault((row["rule"], row["missing"]), []).append(row["subject"])
    found: Rows = []
    for (rule, missing), names in whom.items():
        own = [name for name in names if name != "fleet"]
        some = ", ".join(own[:8]) + (f" and {len(own) - 8:,} more" if len(own) > 8 else "")
        found.append([rule, missing, str(len(own)) if own else "", some or "the whole fleet"])
    return found


def found_runs(rows: list[Row], zone: str) -> Rows:
    """Return what a page of runs prints: the first hundred."""
    found: Rows = []
    for row in rows[:100]:
        state = (row["exit_status"] or "ended").replace("_", " ") if row["ended_us"] else "running"
        began = moment_words(int(row["started_us"]), zone) if row["started_us"] else "unknown"
        more = f" × {row['sku']}" if row["sku"] else ""
        gpus = f"{row['gpus'] or UNKNOWN}{more}"
        measured = _number(row["measured_ms"])
        lost = f"{row['lost_most_to']} {percent(_number(row['lost_ms']), measured)}" if row["lost_most_to"] else UNKNOWN
        found.append([
            f"{row['run_id']} {row['name']}", row["team"] or "unmapped", began, state, gpus,
            gpu_hours(int(row["milliseconds"])), amount(int(row["cost_micros"])) if row["cost_micros"] else "unknown",
            percent(_number(row["useful_ms"]), measured), lost if measured else "not measured",
        ])  # fmt: skip
    return found


TABLES: dict[str, Callable[[list[Row], str], Rows]] = {
    "/money/costs.csv": costs,
    "/money/days.csv": days,
    "/money/budgets.csv": budgets,
    "/money/burn.csv": burn,
    "/money/units.csv": units,
    "/money/runs.csv": runs,
    "/money/prices.csv": prices,
    "/runs.csv": found_runs,
    "/placement/nodes.csv": nodes,
    "/placement/traffic.csv": traffic,
    "/health/agents.csv": agents,
    "/health/coverage.csv": coverage,
    "/health/unjudged.csv": unjudged,
}


def changes(rows: list[Row]) -> list[list[Cell]]:
    """Return what is said of each recommendation that stands, one after the other."""
    found: list[list[Cell]] = []
    for row in rows:
        if not row["held_back"] and not row["instead_of"]:
            saves = row["saves_micros_p50"]
            amount_of: Cell = Fraction(int(saves), MICROS) if saves else "not predicted"
            found.append([row["id"], f"{row['subject']}: {row['title']}", None, amount_of])
    return found


def savings(rows: list[Row]) -> list[list[Cell]]:
    """Return what is said of each recommendation that was accepted or applied."""
    return [[row["id"], f"{row['subject']}: {row['title']}"] for row in rows if row["stage"] != "rejected"]


def rack_heads(rows: list[Row]) -> list[list[Cell]]:
    """Return what is said above the nodes of each rack."""
    return [[name, *told] for name, told in racks(rows).items()]


def cost_words(rows: list[Row]) -> str:
    """Return how much of what all cost each bearer did."""
    whole = sum(_number(row["cost_micros"]) for row in rows)
    return " ".join(percent(_number(row["cost_micros"]), whole) for row in rows)


def traffic_words(rows: list[Row]) -> str:
    """Return how much of what was moved left its rack."""
    across = sum(int(row["bytes"]) for row in rows if row["from"] != row["to"])
    return f"{percent(across, sum(int(row['bytes']) for row in rows))} {bytes_words(across)}"


SENTENCES: dict[str, Callable[[list[Row]], str]] = {
    "/money/costs.csv": cost_words,
    "/placement/traffic.csv": traffic_words,
    "/health/unjudged.csv": lambda rows: f"{len(unjudged(rows, ''))}",
}
LISTS: dict[str, Callable[[list[Row]], list[list[Cell]]]] = {
    "/recommendations/recommendations.csv": changes,
    "/money/savings.csv": savings,
    "/placement/nodes.csv": rack_heads,
}


def differs(printed: str, told: Cell) -> bool:
    """Whether a cell prints something else than its sheet tells."""
    if told is None:
        return False
    if isinstance(told, str):
        return printed != " ".join(told.replace("\u00a0", " ").split())
    figure = printed.replace(",", "").lstrip("$")
    try:
        return abs(Fraction(figure) - told) >= Fraction(1, 10 ** len(figure.partition(".")[2]))
    except ValueError:
        return True
