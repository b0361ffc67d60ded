"""Draw docs/states.svg: an hour of one GPU for each state, out of a store: python -m bench.states_picture STORE OUT.

Of each state the GPU-hour that is most of it: what its SMs did, and how much of its power it drew.
"""

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from agent.wire.units import HOUR_US
from analyzer.period import local
from analyzer.states import BOOKINGS, Class
from collector.store.database import Store
from collector.store.session import Session

# Blue, vermilion, orange, grey and purple can be told apart with any sight (Okabe and Ito); words say it too.
COLOURS: dict[Class, str] = {
    "useful": "#0072b2",
    "avoidable": "#d55e00",
    "overhead": "#e69f00",
    "spare": "#7a7a7a",
    "unknown": "#a05195",
}
COLUMNS, WIDTH, HEIGHT, GAP, TOP = 2, 400, 64, 24, 40


@dataclass(frozen=True, slots=True)
class Example:
    """One GPU-hour: what it was most of, how much of the hour that was, and what was measured, by its second."""

    label: str
    klass: Class
    share: float
    told: str
    points: tuple[tuple[float, float | None, float | None], ...]  # second, SM activity, share of the power limit


def examples(session: Session) -> list[Example]:
    """Return one for each label that the ledger has, in the order of precedence."""
    chosen: dict[str, tuple[int, str, str, int, str | None, Class]] = {}
    for state, cause, gpu, node, hour, ms, run in session.rows(
        "SELECT l.state, l.cause, l.gpu_uuid, l.node, l.hour, sum(l.milliseconds)::BIGINT AS ms, any_value(r.name) "
        "FROM ledger l LEFT JOIN runs r USING (run_id) GROUP BY l.state, l.cause, l.gpu_uuid, l.node, l.hour "
        "QUALIFY row_number() OVER (PARTITION BY l.state, l.cause ORDER BY ms DESC, l.hour, l.gpu_uuid) = 1"
    ):
        booked = next(one for one in BOOKINGS if (one.state, one.cause) == (state, cause))
        if booked.label not in chosen or ms > chosen[booked.label][3]:
            chosen[booked.label] = hour, gpu, node, ms, run, booked.klass
    order = list(dict.fromkeys(one.label for one in BOOKINGS))
    return [_example(session, label, *chosen[label]) for label in order if label in chosen]


def _example(
    session: Session, label: str, hour: int, gpu: str, node: str, ms: int, run: str | None, klass: Class
) -> Example:
    rows = session.rows(
        "SELECT (started_at - ?) / 1e6, coalesce(sm_active_ratio, utilization_ratio), "
        "power_watts / (SELECT max(power_limit_watts) FROM inventory WHERE gpu_uuid = ?) FROM gpu_samples "
        "WHERE gpu_uuid = ? AND started_at >= ? AND started_at < ? ORDER BY 1",
        [hour, gpu, gpu, hour, hour + HOUR_US],
    )
    told = f"{run or 'held by nobody'}, {node}, {local(hour, 'UTC'):%a %H:%M}"
    return Example(label, klass, ms / 3_600_000, told, tuple(rows))


def picture(shown: list[Example]) -> str:
    """Return the panels as one SVG that reads on a light and on a dark page."""
    rows = -(-len(shown) // COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + TOP + GAP) + GAP
    panels = "".join(
        _panel(one, GAP + place % COLUMNS * (WIDTH + GAP), GAP + place // COLUMNS * (HEIGHT + TOP + GAP))
        for place, one in enumerate(shown)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="An hour of one GPU for each state of the ledger" '
        'font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>{panels}</svg>\n'
    )


def _panel(one: Example, left: int, top: int) -> str:
    colour = COLOURS[one.klass]
    told = any(value is not None for _, *values in one.points for value in values)
    silence = (
        "" if told else f'<text x="{WIDTH / 2}" y="{HEIGHT / 2 + 4}" text-anchor="middle" fill="#777">silence</text>'
    )
    return (
        f'<g transform="translate({left},{top})">'
        f'<text x="0" y="12" font-weight="600" fill="{colour}">{escape(one.label)}</text>'
        f'<text x="{WIDTH}" y="12" text-anchor="end" fill="#555">{escape(one.klass)}, '
        f"{round(100 * one.share)}% of this hour</text>"
        f'<text x="0" y="28" font-size="11" fill="#777">{escape(one.told)}</text>'
        f'<g transform="translate(0,{TOP - 4})"><rect width="{WIDTH}" height="{HEIGHT}" fill="#f6f6f6"/>'
        + _line(one.points, 2, "#b0b0b0", 1)
        + _line(one.points, 1, colour, 1.4)
        + silence
        + "</g></g>"
    )


def _line(points: tuple[tuple[float, float | None, float | None], ...], place: int, colour: str, width: float) -> str:
    """Return a line with a gap where nothing was told."""
    runs: list[list[str]] = [[]]
    for point in points:
        value = point[place]
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{point[0] / 3600 * WIDTH:.1f},{HEIGHT - min(1.0, float(value)) * (HEIGHT - 4) - 2:.1f}")
    return "".join(
        f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        for run in runs
        if len(run) > 1
    )


def main(store: Path, out: Path) -> None:
    """Draw the picture of a store."""
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        out.write_text(picture(examples(session)), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
