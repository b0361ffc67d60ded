"""The targets as text: one line each, with its bar."""

from collections.abc import Sequence

from analyzer.report.paper import Paper
from analyzer.targets.targets import Target


def target_lines(targets: Sequence[Target], paper: Paper) -> list[str]:
    """Return the section; a word says how each stands, and what is not known says why."""
    found = [f"{'AGAINST TARGETS':<28}{'should be':<34}{'is':>16}"]
    for one in targets:
        stands = one.standing or "not known"
        found.append(f"  {one.name:<26}{one.bar:<34}{stands:>16}")
        found += paper.wrap(one.told, " " * 30)
    return found
