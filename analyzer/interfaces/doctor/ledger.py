"""The ledger's invariants as lines."""

from collections.abc import Iterable

from analyzer.interfaces.doctor.invariants import Check
from analyzer.interfaces.doctor.line import Line, Section


def ledger(checks: Iterable[Check]) -> Section:
    """Return a line for each invariant."""
    return Section("LEDGER", tuple(map(_line, checks)))


def _line(check: Check) -> Line:
    if check.is_right and not check.checked:
        return Line("unseen", f"{check.name}: nothing there yet to hold to it")
    if check.is_right:
        return Line("ok", f"{check.name}: {check.about} ({check.checked:,})")
    what = f"{check.name}: not so that {check.about}; {check.off:,} {check.unit} off in {check.checked:,}"
    return Line("bad", what, "keep the store as it is, back it up, and report this")
