"""A profile in the forms in which people get it: the page that a ticket takes, its JSON, and page one as text.

`page(envelope, decided)` is the seam to the gates: with what they decided page one begins with the request, the verdict
and the options; without it, with what was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.details import SIGNALS, tables
from analyzer.capacity.profile.evidence import rate_words, ratio
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.first_page import DecisionView, FirstPage, first_page, first_page_text
from analyzer.capacity.profile.read import EMBEDDED, EMBEDDED_END, PAGE_MARK, PAGE_MARK_END
from analyzer.capacity.profile.signature import Envelope, signed_text
from analyzer.charts.figures import Share, Size, Spread, class_bar, scaling, spreads
from analyzer.errors import ConfigError
from analyzer.ledger.breakdown import BreakdownLine
from analyzer.text.layout import TextLayout
from analyzer.text.templating import environment
from analyzer.text.words import plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def class_rows(said: Sequence[BreakdownLine]) -> tuple[Share, ...]:
    """Return the classes of page one's table with its figures; those that have none are left out."""
    return tuple(
        Share(f"{line.klass} {line.percent}%", line.klass, line.share)
        for line in said
        if line.klass is not None and line.level in ("class", "only") and line.share > 0
    )


def signals(profile: CapacityProfile) -> tuple[Spread, ...]:
    """Return the spread of each signal: of shares up to 100%, of power up to the highest."""
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


Form = Literal["html", "json", "text"]
FORMS: dict[str, Form] = {".html": "html", ".htm": "html", ".json": "json", ".txt": "text"}


def form_of(out: Path) -> Form:
    """Return the form that a file's name ends with; a page where it says none."""
    return FORMS.get(out.suffix, "html")


def in_form(
    form: Form,
    envelope: Envelope,
    decided: DecisionView | None = None,
    *,
    key: "Ed25519PrivateKey | None" = None,
    layout: TextLayout | None = None,
) -> str:
    """Return a profile in a form. Words are signed in a page alone, by `key`: a text carries no signature."""
    if form == "json":
        return f"{canonical(envelope)}\n"
    if form == "text":
        return first_page_text(first_page(envelope, decided), layout or TextLayout())
    return page(envelope, decided, key)


@dataclass(frozen=True, slots=True)
class Ready:
    """A signed profile that is to be written. `sent` has the forms that a server made: they stay as they came."""

    envelope: Envelope
    key: "Ed25519PrivateKey | None" = None
    sent: Mapping[Form, str] = field(default_factory=dict)

    def form(self, form: Form, layout: TextLayout | None = None) -> str:
        """Return it in a form."""
        return self.sent.get(form) or in_form(form, self.envelope, key=self.key, layout=layout)

    def write(self, out: Path) -> str:
        """Write it in the form that a file's name says, its JSON beside it, and return what was written, in a sentence.

        Raises:
            ConfigError: one of them cannot be written.
        """
        files = {out: self.form(form_of(out)), out.with_suffix(".json"): self.form("json")}
        for path, content in files.items():
            try:
                path.write_text(content, encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"cannot write {path}: {error.strerror}") from error
        return f"wrote {' and '.join(str(path) for path in files)}"
