"""The forms in which people get a profile: the page that a ticket takes, its JSON, and page one as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.decision_view import DecisionView
from analyzer.capacity.profile.first_page import first_page
from analyzer.capacity.profile.page import page
from analyzer.capacity.profile.signature import Envelope
from analyzer.capacity.profile.text import first_page_text
from analyzer.errors import ConfigError
from analyzer.text.layout import TextLayout

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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
