"""By which signal the measured time was judged, in words: shares that sum to 100 %, and the kinds of GPU of each."""

from collections.abc import Sequence

from analyzer.interfaces.text.sentences import short_sku
from analyzer.reports.groups import MeasuredWith
from analyzer.text.words import NO_BREAK, apportion, counted, decimal

_KINDS_SHOWN = 3
# Held by tests/analyzer/ledger/test_judge.py: no rule is sure of what a GPU's work waits for without SM activity.
_CAPPED = "input starvation at most medium"


def by_what_words(judged: Sequence[MeasuredWith]) -> str | None:
    """Return by what the measured time was judged; None where that is known of none of it."""
    total = sum(one.milliseconds for one in judged)
    active, busy = [one.sm_activity or 0 for one in judged], [one.utilization or 0 for one in judged]
    parts = [sum(active), sum(busy), total - sum(active) - sum(busy)]
    if parts[2] == total:
        return None
    shares = apportion(1000, [part * 1000 for part in parts], total)
    skus = [one.sku for one in judged]
    said: list[str] = []
    for name, share, amounts, limit in (
        ("SM activity", shares[0], active, ""),
        ("NVML utilization", shares[1], busy, f": {_CAPPED}"),
    ):
        if share:
            of = "" if said else " of measured GPU-hours"
            said.append(f"{name} {_percent(share)}{of} ({_kinds(skus, amounts, total)}{limit})")
    if shares[2]:
        said.append(f"of {_percent(shares[2])} it was not kept")
    return ", ".join(said)


def _percent(permille: int) -> str:
    return f"{decimal(permille, 1)}{NO_BREAK}%"


def _kinds(skus: Sequence[str | None], amounts: Sequence[int], total: int) -> str:
    """Return the kinds of GPU that have a part in it that can be seen, largest first; a stray second names none."""
    most = sorted(zip(amounts, skus, strict=True), key=lambda one: -one[0])
    shown = [sku for amount, sku in most if amount * 1000 >= total] or [most[0][1]]
    names = [short_sku(sku, set(skus)) for sku in shown[:_KINDS_SHOWN]]
    more = len(shown) - _KINDS_SHOWN
    return ", ".join([*names, f"{counted(more, 'kind')} more"] if more > 0 else names)
