"""The ledger's invariants as lines."""

from collections.abc import Iterable

from analyzer.interfaces.doctor.invariants import Check
from analyzer.interfaces.doctor.line import CheckLine, Section


def ledger(checks: Iterable[Check]) -> Section:
    """Return a line for each invariant."""
    return Section("LEDGER", tuple(map(_line, checks)))


def _line(check: Check) -> CheckLine:
    if check.is_right and not check.checked:
        return CheckLine("unseen", f"{check.name}: nothing there yet to hold to it")
    if check.is_right:
        return CheckLine("ok", f"{check.name}: {check.about} ({check.checked:,})")
    what = f"{check.name}: not so that {check.about}; {check.off:,} {check.unit} off in {check.checked:,}"
    return CheckLine("bad", what, "keep the store as it is, back it up, and report this")
