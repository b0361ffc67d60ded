"""What the figures of a profile show; what nobody measured is in none of them."""

from collections.abc import Sequence

from analyzer.capacity.profile.details import SIGNALS
from analyzer.capacity.profile.evidence import rate_words, ratio
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.charts.profile import Share, Size, Spread
from analyzer.ledger.breakdown import BreakdownLine
from analyzer.text.words import NO_BREAK, plain


def class_rows(said: Sequence[BreakdownLine]) -> tuple[Share, ...]:
    """Return the classes of page one's table with its figures; those that have none are left out."""
    return tuple(
        Share(f"{line.klass} {line.percent}{NO_BREAK}%", line.klass, line.share)
        for line in said
        if line.klass is not None and line.level in ("class", "only") and line.share > 0
    )


def signals(profile: CapacityProfile) -> tuple[Spread, ...]:
    """Return the spread of each signal: of shares up to 100 %, of power up to the highest."""
    found = []
    for each in profile.distributions:
        is_ratio = each.signal.endswith("_ratio")
        top = 1.0 if is_ratio else max(each.highest, 1e-9)
        p10, p50, p90 = (min(1.0, max(0.0, value / top)) for value in (each.p10, each.p50, each.p90))
        label = f"{SIGNALS.get(each.signal, plain(each.signal))}{f', {plain(each.sku)}' if each.sku else ''}"
        found.append(Spread(label, p10, p50, p90, ratio(each.p50, 0) if is_ratio else f"{each.p50:,.0f}"))
    return tuple(found)


def sizes(profile: CapacityProfile) -> tuple[Size, ...]:
    """Return what each size came to; nothing of fewer than two."""
    found = [size for size in profile.scaling if size.gpus > 0 and size.work_per_second > 0]
    if len(found) < 2:
        return ()
    first = found[0]
    return tuple(
        Size(
            f"{size.gpus:,} GPUs",
            f"{rate_words(size.work_per_second)} {plain(size.unit)}/s, {ratio(size.efficiency_ratio, 0)}",
            size.work_per_second / first.work_per_second,
            size.gpus / first.gpus,
        )
        for size in found
    )
