"""The pictures of a profile as shapes on a sheet; profile.html writes them as SVG. No script draws anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.capacity.profile.details import SIGNALS
from analyzer.capacity.profile.evidence import rate, ratio
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.report.table import Line
from analyzer.report.words import NO_BREAK, plain

WIDTH = 720
LEFT, RIGHT = 230, 60  # of spreads: their names, and the largest figure
ROW, BAR = 26, 12
SCALE_HEIGHT, MARGIN, EDGE = 200, 60, 10  # below and beside the curve stand its figures


@dataclass(frozen=True, slots=True)
class Part:
    """One class of the bar on page one; x and width are of a sheet of WIDTH."""

    klass: str
    share: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class SpreadBar:
    """One signal: its name, and where its tenth, its half and nine tenths lie from left to right."""

    label: str
    y: float
    p10: float
    p50: float
    p90: float
    told: str


@dataclass(frozen=True, slots=True)
class Spot:
    """One size of the scaling picture."""

    x: float
    y: float
    label: str
    told: str


@dataclass(frozen=True, slots=True)
class Curve:
    """What the sizes came to, joined by `line`, and what they would where nothing is lost; both are points of SVG."""

    spots: tuple[Spot, ...]
    line: str
    ideal: str
    height: int = SCALE_HEIGHT


def parts(said: Sequence[Line]) -> tuple[Part, ...]:
    """Return the classes of page one's table as one bar, with its figures; those that have none are left out."""
    found, x = [], 0.0
    for line in said:
        if line.klass is not None and line.level in ("class", "only") and line.share > 0:
            width = WIDTH * line.share
            found.append(Part(line.klass, f"{line.percent}{NO_BREAK}%", round(x, 1), round(width, 1)))
            x += width
    return tuple(found)


def spreads(profile: CapacityProfile) -> tuple[SpreadBar, ...]:
    """Return the signals' bars: shares from 0 to 100 %, power from 0 to the highest."""
    found = []
    for place, each in enumerate(profile.distributions):
        is_ratio = each.signal.endswith("_ratio")
        top = 1.0 if is_ratio else max(each.highest, 1e-9)
        p10, p50, p90 = (
            round(LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, value / top)), 1)
            for value in (each.p10, each.p50, each.p90)
        )
        label = f"{SIGNALS.get(each.signal, plain(each.signal))}{f', {plain(each.sku)}' if each.sku else ''}"
        told = ratio(each.p50, 0) if is_ratio else f"{each.p50:,.0f}"
        found.append(SpreadBar(label, ROW * (place + 1), p10, p50, p90, told))
    return tuple(found)


def curve(profile: CapacityProfile) -> Curve | None:
    """Return the picture of the sizes; None of fewer than two."""
    sizes = [size for size in profile.scaling if size.gpus > 0 and size.work_per_second > 0]
    if len(sizes) < 2:
        return None
    first = sizes[0]
    speeds = [size.work_per_second / first.work_per_second for size in sizes]
    best = [size.gpus / first.gpus for size in sizes]
    top = max(*speeds, *best)

    def at(place: int, speed: float) -> tuple[float, float]:
        """Return where a speed lies: sizes stand side by side, whatever is between them."""
        x = MARGIN + (WIDTH - 2 * MARGIN) * place / (len(sizes) - 1)
        return round(x, 1), round(SCALE_HEIGHT - MARGIN - (SCALE_HEIGHT - MARGIN - EDGE) * speed / top, 1)

    spots = tuple(
        Spot(
            *at(place, speed),
            f"{size.gpus:,} GPUs",
            f"{rate(size.work_per_second)} {plain(size.unit)}/s, {ratio(size.efficiency_ratio, 0)}",
        )
        for place, (size, speed) in enumerate(zip(sizes, speeds, strict=True))
    )
    ideal = " ".join("{},{}".format(*at(place, speed)) for place, speed in enumerate(best))
    return Curve(spots, " ".join(f"{spot.x},{spot.y}" for spot in spots), ideal)
