"""The e-mail as it travels: multipart/related of a text with its HTML twin, and the one picture; headers that hold.

multipart/mixed             where there is a file to attach
    multipart/related
        multipart/alternative
            text/plain      the whole mail in words
            text/html       the same words, and cid:chart
        image/png           inline
    text/csv                the week's teams, its findings
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from analyzer.errors import ConfigError
from analyzer.interfaces.mail.charts import chart
from analyzer.interfaces.mail.content import Attachment, Content, Footer
from analyzer.interfaces.mail.html import mail_html
from analyzer.interfaces.mail.text import mail_text
from analyzer.text.words import plain

# An address or a token that does not fit a line of 78 would be folded into encoded words, which mailers do not follow.
_LONG_LINES = SMTP.clone(max_line_length=990)  # RFC 5322: at most 998
HTML_BYTES = 100_000  # what Gmail shows without cutting is 102 KB


@dataclass(frozen=True, slots=True)
class Envelope:
    """Of one mail: who, to whom, which list, and how it is stopped. `stop_url` and `stop_address` go to RFC 8058."""

    sender: str
    sender_name: str
    recipient: str
    list_name: str
    list_id: str
    message_id: str
    date: datetime
    footer: Footer


def message(content: Content, envelope: Envelope) -> bytes:
    """Return the mail as bytes that any SMTP server takes: ASCII, CRLF, no line over 998.

    Raises:
        ConfigError: the HTML would be over 100 KB.
    """
    picture = chart(content)
    domain = envelope.sender.rpartition("@")[2]
    chart_id = f"chart.{content.period}@{domain}" if picture is not None else None
    html = mail_html(content, envelope.footer, chart_id)
    if len(html.encode()) > HTML_BYTES:
        raise ConfigError(f"the mail to {envelope.list_name} has {len(html.encode()):,} bytes of HTML; 100 KB is most")
    root = _headed(content, envelope)
    related = root if not content.files else EmailMessage(policy=_LONG_LINES)
    related.make_related()
    related.attach(_twins(mail_text(content, envelope.footer), html))
    if picture is not None:
        related.attach(_picture(picture, str(chart_id)))
    related.set_param("type", "multipart/alternative")
    if content.files:
        _plain_part(related)
        root.make_mixed()
        root.attach(related)
    for each in content.files:
        root.attach(_file(each))
    _bound(root, envelope.message_id)
    return root.as_bytes(policy=_LONG_LINES)


def _headed(content: Content, envelope: Envelope) -> EmailMessage:
    found = EmailMessage(policy=_LONG_LINES)
    local, _, domain = envelope.sender.rpartition("@")
    found["From"] = Address(plain(envelope.sender_name), local, domain)
    found["To"] = envelope.recipient
    found["MIME-Version"] = "1.0"
    found["Subject"] = plain(content.subject)
    found["Date"] = envelope.date
    found["Message-ID"] = envelope.message_id
    found["List-Id"] = f"{_phrase(envelope.list_name)} <{envelope.list_id}>"
    stops = [f"<{envelope.footer.stop_url}>"] if envelope.footer.stop_url else []
    stops += [f"<mailto:{envelope.footer.stop_address}?subject=stop>"] if envelope.footer.stop_address else []
    if stops:
        found["List-Unsubscribe"] = ", ".join(stops)
    if envelope.footer.stop_url:
        found["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"  # RFC 8058
    found["Auto-Submitted"] = "auto-generated"  # RFC 3834: no absence note comes back
    found["X-Auto-Response-Suppress"] = "All"  # the same, as Exchange reads it
    return found


def _phrase(name: str) -> str:
    """Return a list's name for List-Id: a filter of a mailer reads what stands in angle brackets."""
    return "".join("?" if letter in '<>"\\,;:@()[]' else letter for letter in plain(name))


def _twins(text: str, html: str) -> EmailMessage:
    """Return the alternatives; the last is what most show, and the first is whole for who shows no HTML."""
    found = EmailMessage(policy=SMTP)
    found.set_content(text, cte="quoted-printable")
    found.add_alternative(html, subtype="html", cte="quoted-printable")
    _plain_part(found)
    return found


def _picture(picture: bytes, chart_id: str) -> EmailMessage:
    found = EmailMessage(policy=SMTP)
    found.set_content(picture, "image", "png", disposition="inline", filename="where-it-went.png", cid=f"<{chart_id}>")
    _plain_part(found)
    return found


def _file(each: Attachment) -> EmailMessage:
    found = EmailMessage(policy=SMTP)
    found.set_content(each.text, "csv", cte="base64", disposition="attachment", filename=each.name)
    _plain_part(found)
    return found


def _plain_part(part: EmailMessage) -> None:
    """Take away what belongs to the head of a mail alone."""
    for each in (part, *part.walk()):
        del each["MIME-Version"]


def _bound(root: EmailMessage, message_id: str) -> None:
    """Give boundaries that follow from the mail: made twice, it has the same bytes."""
    for number, part in enumerate(root.walk()):
        if part.is_multipart():
            digest = hashlib.sha256(f"{message_id}/{number}".encode()).hexdigest()[:24]
            part.set_boundary(f"=_gpuledger_{digest}")
