"""A profile as one self-contained page: page one for who decides, the figures after it, and the signed JSON within.

`page(envelope, decided)` is the seam to the gates: with what they decided page one begins with the request, the verdict
and the options; without it, with what was measured.
"""

from typing import TYPE_CHECKING

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.decision_view import DecisionView
from analyzer.capacity.profile.details import tables
from analyzer.capacity.profile.first_page import FirstPage, first_page
from analyzer.capacity.profile.read import EMBEDDED, EMBEDDED_END, PAGE_MARK, PAGE_MARK_END
from analyzer.capacity.profile.shapes import class_rows, signals, sizes
from analyzer.capacity.profile.signature import Envelope, signed_text
from analyzer.charts.profile import class_bar, scaling, spreads
from analyzer.text.templating import environment

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_TEMPLATE = "profile.html"
_HEAD, _BODY_END = "<head>", "</body>"  # names are escaped: only the template can have written these


def page(envelope: Envelope, decided: DecisionView | None = None, key: "Ed25519PrivateKey | None" = None) -> str:
    """Return the page. `key` is that of the envelope, and signs the words of the page; None leaves them unsigned."""
    html = environment().get_template(_TEMPLATE).render(view(envelope, decided))
    mark = f"{PAGE_MARK}{PAGE_MARK_END}"
    before, head, after = html.partition(_HEAD)
    html = f"{before}{head}\n{mark}{after}"
    body, end, rest = html.rpartition(_BODY_END)
    html = f"{body}{EMBEDDED}{canonical(envelope)}{EMBEDDED_END}\n{end}{rest}"
    if key is None:
        return html
    return html.replace(mark, f"{PAGE_MARK}{signed_text(html, key)}{PAGE_MARK_END}", 1)


def view(envelope: Envelope, decided: DecisionView | None = None) -> dict[str, object]:
    """Return everything that the template prints: page one, and the figures and pictures after it."""
    first, profile = first_page(envelope, decided), envelope.profile
    classes, spread, came = class_rows(first.lines), signals(profile), sizes(profile)
    return {name: getattr(first, name) for name in FirstPage.__slots__} | {
        "tables": tables(profile),
        "whole": class_bar(classes) if classes else None,
        "spreads": spreads(spread) if spread else None,
        "scaling": scaling(came) if came else None,
    }
