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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from operator import itemgetter

from analyzer.errors import ConfigError
from analyzer.findings.finding import Finding
from analyzer.interfaces.mail.content import (
    Action,
    Attachment,
    Content,
    Footer,
    Section,
    Table,
    WentLine,
    chart,
    mail_html,
)
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.week import WeekReport
from analyzer.text.layout import TextLayout, at_ends
from analyzer.text.table import (
    TableColumn,
    csv_text,
    decimal_digits,
    for_spreadsheet,
    hours_digits,
    money_digits,
    name_column,
    paper_lines,
)
from analyzer.text.words import plain, plain_sentence

_WIDTH = 78  # of the paper, whose text is two columns narrower
_KLASS, _AMOUNT, _PERCENT = 12, 11, 8


def mail_text(content: Content, footer: Footer) -> str:
    """Return the text part."""
    layout = TextLayout(_WIDTH)
    parts = [
        [content.title.upper() if content.team is None else content.title],
        _figures(content),
        layout.wrap(content.answer, ""),
        _went(content, layout),
        _actions(content, layout),
        *(_section(section, layout) for section in content.sections),
        _foot(content, footer, layout),
    ]
    return layout.page([line for part in parts if part for line in (*part, "")][:-1])


def _cell(place: int) -> Callable[[tuple[str, ...]], str]:
    return itemgetter(place)


def _figures(content: Content) -> list[str]:
    columns = [(figure.value, figure.name, figure.change, figure.usual) for figure in content.figures]
    width = max(17, *(len(word) + 2 for column in columns[:2] for word in column))
    rows = [row for row in zip(*columns, strict=True) if any(row)]
    side_by_side = [
        TableColumn("", _cell(place), width=width + (0 if place else 3), align="<") for place in range(len(columns))
    ]
    return paper_lines(side_by_side, rows, "   ") if rows else []


def _went(content: Content, layout: TextLayout) -> list[str]:
    label = layout.width - 4 - _KLASS - _AMOUNT - _PERCENT
    head = "WHERE THE MONEY WENT" if content.went_head != "GPU-hours" else "WHERE THE TIME WENT"
    columns: tuple[TableColumn[WentLine], ...] = (
        TableColumn(head, lambda line: line.klass, width=2 + _KLASS, align="<"),
        name_column("", lambda line: line.label, label),
        TableColumn(content.went_head, lambda line: line.amount, width=_AMOUNT),
        TableColumn("%", lambda line: line.percent, width=_PERCENT),
    )
    return paper_lines(columns, content.went) if content.went else []


def _actions(content: Content, layout: TextLayout) -> list[str]:
    found = content.actions
    if found is None:
        return []
    width = layout.width - 2
    lines = [at_ends(found.head.upper(), found.unit, width)]
    for number, action in enumerate(found.rows, 1):
        lines += _action(number, action, layout)
    if not found.together:
        return lines
    return [*lines, at_ends("  total", found.together, width), *layout.wrap(found.bill)]


def _action(number: int, action: Action, layout: TextLayout) -> list[str]:
    narrow = TextLayout(layout.width - len(action.saves) - 1)
    title = narrow.wrap(f"{action.owner}  {action.title} ({action.id})", f"  {number} ", " " * 4)
    title[0] = at_ends(title[0], action.saves, layout.width - 2)
    return [
        *title,
        *layout.wrap(action.evidence, " " * 4),
        *(f"      {line}" for line in action.how),
        *([f"    {action.link}"] if action.link else []),
    ]


def _section(section: Section, layout: TextLayout) -> list[str]:
    title = section.title.upper()
    found = _table(title, section.table, layout) if section.table is not None and section.table.rows else [title]
    for paragraph in section.paragraphs:
        found += layout.wrap(paragraph)
    return found


def _table(title: str, table: Table, layout: TextLayout) -> list[str]:
    """Return a table whose first head is its title."""
    cells = list(zip(table.head, *table.rows, strict=True))
    widths = [max(map(len, column)) + 2 for column in cells[1:]]
    first = max(16, layout.width - 4 - sum(widths))
    columns = [
        name_column(title, _cell(0), first + 2),
        *(
            TableColumn(head, _cell(place), width=width)
            for place, (head, width) in enumerate(zip(table.head[1:], widths, strict=True), 1)
        ),
    ]
    return paper_lines(columns, table.rows)


def _foot(content: Content, footer: Footer, layout: TextLayout) -> list[str]:
    found = layout.wrap(content.files_text, "") if content.files else []
    found += [f"View online: {content.page}"] if content.page else []
    found += layout.wrap(footer.why, "")
    if footer.stop_url:
        found.append(f"Unsubscribe: {footer.stop_url}")
    if footer.stop_address:
        found.append(f"{'or' if footer.stop_url else 'To unsubscribe:'} write to {footer.stop_address}")
    return found


FINDINGS_MOST = 2_000  # of more, those with most at stake: about 400 KB
_TEAMS = (
    "week", "team", "gpu_hours", "currency", "cost", "useful_gpu_hours", "useful", "avoidable_gpu_hours", "avoidable",
)  # fmt: skip
_FINDINGS = (
    "week", "finding", "rule", "subject", "team", "what", "confidence", "who_can_act", "gpu_hours", "currency",
    "at_stake", "first", "last", "still_open", "told",
)  # fmt: skip


def attachments(report: WeekReport, team: str | None) -> tuple[Attachment, ...]:
    """Return the files of the fleet's mail (None), or of one team's, whose report this is; an empty table is none."""
    week = report.period.label
    rows = [(report.by_team.words(row), row.breakdown) for row in report.by_team.rows]
    if team is not None and report.breakdown.entries:
        rows = [(team, report.breakdown)]
    found = [one for one in report.findings if not one.suspicion]
    found = sorted(found, key=lambda one: (-(one.at_stake_micros or 0), -one.milliseconds, one.id))
    tables = (
        (f"{week}-teams.csv", _TEAMS, [_team(week, name, of, report.currency) for name, of in rows]),
        (f"{week}-findings.csv", _FINDINGS, [_finding(one, report) for one in found[:FINDINGS_MOST]]),
    )
    return tuple(Attachment(name, _csv(head, body)) for name, head, body in tables if body)


def _team(week: str, name: str, of: Breakdown, currency: str) -> list[str]:
    useful, avoidable = of.of("useful"), of.of("avoidable")
    cells = [week, name, _hours(of.milliseconds), currency, _money(of.cost_micros)]
    if of.milliseconds and not of.measured.milliseconds:  # nobody measured it: neither is known, and neither is 0
        return [*cells, "", "", "", ""]
    for part in (useful, avoidable):
        cost = part.cost_micros if part.entries else 0
        cells += [_hours(part.milliseconds), _money(None if of.cost_micros is None else cost)]
    return cells


def _finding(one: Finding, report: WeekReport) -> list[str]:
    zone = report.period.timezone
    return [
        report.period.label, one.id, one.rule, one.subject, one.team or "", one.what, one.confidence, one.actor or "",
        _hours(one.milliseconds), report.currency, _money(one.at_stake_micros),
        *(local(at, zone).isoformat(timespec="minutes") for at in (one.first_at, one.last_at)),
        "yes" if one.still_open else "no", one.claim,
    ]  # fmt: skip


def _csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a spreadsheet."""
    return for_spreadsheet(csv_text(head, ([plain_sentence(cell) for cell in row] for row in rows), "\r\n"))


def _hours(milliseconds: int) -> str:
    return decimal_digits(hours_digits(milliseconds))


def _money(micros: int | None) -> str:
    """Return an exact amount; what is not known is an empty cell, never 0."""
    return "" if micros is None else decimal_digits(money_digits(micros))


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
        raise ConfigError(
            f"the mail to {envelope.list_name} has {len(html.encode()):,} bytes of HTML; the maximum is 100 KB"
        )
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
