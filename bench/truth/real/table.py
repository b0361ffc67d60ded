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
        (
            "the same, worked out from the steps",
            *(_percent(epoch["worked_out"]) for epoch in settings[0]["epochs"]),
            "",
            "",
        ),
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
            f"{100 * each['most_off']:.1f}, {100 * each['most_off_by_epoch']:.1f}",
            f"{each['over_a_point']}, {each['over_a_point_and_band']}",
            f"{100 * each['most_apart']:.2f}",
        )
        for each in agreements
    ]
    head = (
        "six submitters",
        "epochs, below the line",
        "Spearman, Kendall",
        "below told from above",
        "right at 5%, 20%",
        "most off, points; by epochs",
        "off by over a point; of 5% and more",
        "most apart, of those in the wrong order",
    )
    return _markdown(head, rows)


def _seren(groups: Mapping[str, Mapping[str, float | None]]) -> str:
    columns = (
        ("utilization, median %", "utilization_median"),
        ("at or under 10%, %", "utilization_low_percent"),
        ("distance", "utilization_distance"),
        ("distance, busy time", "busy_utilization_distance"),
        ("memory, quartiles %", "memory_median"),
        ("distance", "memory_distance"),
        ("SM activity, median %", "sm_median"),
        ("distance", "sm_distance"),
        ("power, median % of limit", "power_median"),
        ("distance", "power_distance"),
        ("RDMA sends nothing, %", "link_idle_percent"),
        ("processors, distance", "cpu_distance"),
    )
    rows = []
    for name, figures in groups.items():
        cells = [_number(figures.get(key)) for _, key in columns]
        cells[4] = ", ".join(_number(figures[key]) for key in ("memory_p25", "memory_median", "memory_p75"))
        rows.append((name, *cells))
    return _markdown(("GPUs", *(title for title, _ in columns)), rows)


def _missed(checks: Sequence[Mapping[str, Any]]) -> str:
    asked, added = ([check for check in checks if check["asked"] is which] for which in (True, False))
    head = f"{_kept(checks)} of {len(checks)} bars are kept: {_kept(asked)} of {len(asked)} that were asked for, "
    head += f"{_kept(added)} of {len(added)} that we added."
    return "\n".join([head, "", *_list("Asked for", asked), *_list("Added", added)])


def _list(title: str, checks: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f"- {check['name']}: {_number(check['found'], 4)} (bar: {check['bar']})"
        for check in checks
        if not check["kept"]
    ]
    return [f"{title}, not kept:", "", *(lines or ["- none"]), ""]


def _kept(checks: Sequence[Mapping[str, Any]]) -> int:
    return sum(bool(check["kept"]) for check in checks)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}%"


def _number(value: float | None, places: int = 2) -> str:
    return NONE if value is None else f"{value:.{places}f}".rstrip("0").rstrip(".")
