"""The targets as text: one line each with its bar and what is, and last where the bars come from."""

from collections.abc import Sequence

from analyzer.finops.targets.targets import SOURCE, Target
from analyzer.text.layout import TextLayout

_SHORT = 8  # a percentage stands in the line itself


def target_lines(targets: Sequence[Target], layout: TextLayout) -> list[str]:
    """Return the section; a word says how each stands, and what is not known says why."""
    is_narrow = layout.extra < -2
    should = "" if is_narrow else f"{'should be':<32}"
    found = [f"{'AGAINST TARGETS':<26}{should}{'is':>8}"]
    for one in targets:
        is_short = len(one.told) <= _SHORT
        bar = "" if is_narrow else f"{one.bar:<32}"
        found.append(f"  {one.name:<24}{bar}{one.told if is_short else '':>8}{one.standing or 'not known':>12}")
        found += layout.wrap(f"should be {one.bar}", " " * 6) if is_narrow else []
        found += [] if is_short else layout.wrap(one.told, " " * (6 if is_narrow else 28))
    return [*found, *layout.wrap(SOURCE)]
