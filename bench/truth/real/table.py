"""The README's tables of real data, from the results' raw numbers and nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

BEGIN, END = "<!-- real -->\n", "<!-- end -->"
NONE = "–"


def put(text: str, tables: str) -> str:
    """Return a document with what stands between its two comments replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"BUG: there is no section {BEGIN.strip()}"
    return before + begin + tables + end + after


def table(found: Mapping[str, Any]) -> str:
    """Return all tables as markdown."""
    parts = (
        _kineto(found["kineto"]),
        _hpe(found["hpe"]),
        _submitters(found["submitters"]),
        _seren(found["seren"]),
        _missed(found["checks"]),
    )
    return "\n".join(parts)


def _kineto(verdicts: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{each['sensor']}, {each['every_seconds']:g} s",
            each["recording"].removesuffix("_a"),
            _percent(each["profiler_waiting"]),
            _percent(1 - each["profiler_busy"]),
            _percent(each["starved"]),
            _percent(each["suspected"]),
            _percent(each["unexplained"] - each["suspected"]),
        )
        for each in verdicts
    ]
    head = (
        "Kineto, V100",
        "recording",
        "profiler: waits",
        "no kernel",
        "starved",
        "input suspected",
        "low, no word why",
    )
    return _markdown(head, rows)


def _hpe(settings: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        ("1 − AU, published", *(_percent(epoch["published"]) for epoch in settings[0]["epochs"]), "", ""),
        ("waits in the steps' records", *(_percent(epoch["recorded"]) for epoch in settings[0]["epochs"]), "", ""),
    ]
    for each in settings:
        order = f"{_number(each['spearman'])}, {_number(each['kendall'])}"
        first = _percent(min(epoch["first_step"] for epoch in each["epochs"]))
        booked = (_percent(epoch["booked"]) for epoch in each["epochs"])
        rows.append((f"booked: {each['placing']}, {each['sensor']}", *booked, order, first))
    head = ("HPE, waiting by epoch", "1", "2", "3", "4", "5", "Spearman, Kendall", "first steps, at least")
    return _markdown(head, rows)


def _submitters(agreements: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{each['sensor']}, {each['workload']}",
            f"{each['epochs']}, {each['below_the_line']}",
            f"{_number(each['spearman'])}, {_number(each['kendall'])}",
            _number(each["parting"]) if each["workload"] != "all" else "",
            f"{_percent(each['right_at_5_percent'])}, {_percent(each['right_at_20_percent'])}",
            f"{100 * each['most_off']:.1f}",
        )
        for each in agreements
    ]
    head = (
        "six submitters",
        "epochs, below the line",
        "Spearman, Kendall",
        "below told from above",
        "right at 5 %, 20 %",
        "most off, points",
    )
    return _markdown(head, rows)


def _seren(groups: Mapping[str, Mapping[str, float | None]]) -> str:
    columns = (
        ("utilization, median %", "utilization_median"),
        ("at or under 10 %, %", "utilization_low_percent"),
        ("distance", "utilization_distance"),
        ("distance, busy time", "busy_utilization_distance"),
        ("memory, quartiles %", "memory_median"),
        ("distance", "memory_distance"),
        ("RDMA sends nothing, %", "link_idle_percent"),
    )
    rows = []
    for name, figures in groups.items():
        cells = [_number(figures.get(key)) for _, key in columns]
        cells[4] = ", ".join(_number(figures[key]) for key in ("memory_p25", "memory_median", "memory_p75"))
        rows.append((name, *cells))
    return _markdown(("GPUs", *(title for title, _ in columns)), rows)


def _missed(checks: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"- {each['name']}: {_number(each['found'], 4)} (bar: {each['bar']})" for each in checks if not each["kept"]
    ]
    return "\n".join([f"{len(checks) - len(lines)} of {len(checks)} bars are kept. Not kept:", "", *lines, ""])


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, places: int = 2) -> str:
    return NONE if value is None else f"{value:.{places}f}".rstrip("0").rstrip(".")
