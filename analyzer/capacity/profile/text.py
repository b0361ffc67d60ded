"""Page one of a profile as text, for a terminal and a ticket that shows no HTML: the page's figures, 80 columns."""

import textwrap
from collections.abc import Iterator

from analyzer.capacity.profile.decision_view import DecisionView, ShownOption
from analyzer.capacity.profile.first_page import FirstPage
from analyzer.ledger.breakdown import went
from analyzer.text.layout import TextLayout

_LABEL = 12  # of the evidence
# Of the choices: what, GPUs, to buy, its price, in time; what is left is for what happens if it is wrong.
_WHAT, _GPUS, _BUY, _PRICE, _TIME = 31, 5, 8, 13, 8


def first_page_text(first: FirstPage, layout: TextLayout) -> str:
    """Return page one for this paper, its parts between rules."""
    rule = "-" * layout.width
    parts = (
        _asked(first, layout),
        *((_verdict(first.decided, layout), _options(first.decided, layout)) if first.decided else ()),
        _went(first, layout) if first.lines else [],
        _evidence(first, layout),
        layout.wrap(f"CAVEATS  {' '.join(first.caveats)}", "", " ") if first.caveats else [],
        _made(first, layout),
    )
    return layout.page([rule, *(line for part in parts if part for line in (*part, rule))])


def _asked(first: FirstPage, layout: TextLayout) -> list[str]:
    """Return whose profile it is, and what is asked for or was measured."""
    site = layout.cut(first.site, layout.width // 2)
    title = layout.cut(first.title.replace("Capacity profile", "CAPACITY PROFILE"), layout.width - len(site) - 1)
    head = title + site.rjust(layout.width - len(title))
    said = (first.whose, first.held, first.answer)
    if first.decided is not None:
        judged = (first.decided.judged,) if first.decided.judged else ()
        said = (*first.decided.asked, f"Measured: {first.whose}; {first.held}.", *judged)
    return [head, *(line for text in said for line in layout.wrap(text, ""))]


def _verdict(decided: DecisionView, layout: TextLayout) -> list[str]:
    said = (decided.answer, decided.stopped or "")
    head = layout.wrap(f"VERDICT OF THE GATES: {decided.verdict}", "")
    return [*head, *(line for text in said for line in layout.wrap(text, ""))]


def _options(decided: DecisionView, layout: TextLayout) -> list[str]:
    if not decided.options:
        return []
    in_time = layout.cut(decided.in_time, _TIME - 1)
    what = _WHAT + min(0, layout.extra)
    head = f"{'WHAT CAN BE DECIDED':<{what}}{'GPUs':>{_GPUS}}{'to buy':>{_BUY}}{decided.span:>{_PRICE}}"
    rows = [line for option in decided.options for line in _option(option, what, layout)]
    return [f"{head}  {in_time:<{_TIME}}if wrong", *rows, *(layout.wrap(decided.fix, "") if decided.fix else ())]


def _option(one: ShownOption, what: int, layout: TextLayout) -> Iterator[str]:
    """Yield a choice in one line; in more where its name, or what happens if it is wrong, is long."""
    name = f" {one.what}{' (advised)' if one.advised else ''}"
    if len(name) > what:
        yield from layout.wrap(name.strip(), " ", "   ")
        name = ""
    figures = f"{name:<{what}}{one.gpus:>{_GPUS}}{one.to_buy:>{_BUY}}{one.price:>{_PRICE}}  {one.in_time:<{_TIME}}"
    first, *rest = textwrap.wrap(one.if_wrong, layout.width - len(figures)) or [""]
    yield f"{figures}{first}"
    yield from (" " * len(figures) + more for more in rest)


def _went(first: FirstPage, layout: TextLayout) -> list[str]:
    """Return where the time went; on narrow paper its title has a line of its own."""
    title = first.went.upper()
    table = went(title, first.lines, layout, first.sign)
    return table if len(table[0]) <= layout.width else [title, *went("", first.lines, layout, first.sign)]


def _evidence(first: FirstPage, layout: TextLayout) -> list[str]:
    of_all = " (of all runs of the profile)" if first.decided is not None and first.decided.booked else ""
    rows = (layout.labelled(label, text, _LABEL + 2) for label, text in first.evidence)
    return [f"EVIDENCE{of_all}", *(line for row in rows for line in row)]


def _made(first: FirstPage, layout: TextLayout) -> list[str]:
    return [
        *layout.wrap(f"{first.made}; {first.key}", ""),
        *layout.wrap(f"sha256 {first.sha256}", ""),
        *layout.wrap("check its figures: gpuledger profile verify profile.json --keys trusted.toml", ""),
    ]
