"""The two tables of a mail: exact, safe in a spreadsheet, and of a team its own alone."""

import csv
import email
from dataclasses import replace
from decimal import Decimal
from email.message import EmailMessage
from email.policy import default
from io import StringIO

from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.editions import edition_message
from analyzer.interfaces.mail.message import FINDINGS_MOST, attachments
from analyzer.interfaces.mail.team_week import of_team, team_facts
from analyzer.reports.week import WeekReport
from collector.store.session import Session
from tests.analyzer.interfaces.test_mail_message import FLEET, MADE_AT, SETTINGS, SITE_URL
from tests.analyzer.reports import example_week

HOSTILE = '=HYPERLINK("https://evil.example","x")\r\nnext'


def rows(text: str) -> list[dict[str, str]]:
    """Return a table as a spreadsheet reads it."""
    return list(csv.DictReader(StringIO(text, newline="")))


def test_the_tables_sum_to_the_week(week: WeekReport) -> None:
    """Whoever works on with them must come to the mail's own figures."""
    teams, findings = attachments(week, None)
    assert (teams.name, findings.name) == ("2026-W46-teams.csv", "2026-W46-findings.csv")
    cost = sum(Decimal(row["cost"]) for row in rows(teams.text))
    avoidable = sum(Decimal(row["avoidable"]) for row in rows(teams.text))
    assert cost * 1_000_000 == week.breakdown.cost_micros
    assert avoidable * 1_000_000 == week.avoidable.cost_micros
    assert sum(Decimal(row["gpu_hours"]) for row in rows(teams.text)) * 3_600_000 == week.breakdown.milliseconds
    told = rows(findings.text)
    assert len(told) == sum(not one.suspicion for one in week.findings)
    assert [row["at_stake"] for row in told] == sorted((row["at_stake"] for row in told), key=lambda a: -Decimal(a))


def test_no_cell_is_a_formula(week: WeekReport) -> None:
    """A run's name is its user's text, and finance opens the file."""
    teams = tuple(replace(row, name=HOSTILE) if row.held else row for row in week.teams)
    findings = tuple(replace(one, subject=HOSTILE, team="+1", claim="@SUM(A1)") for one in week.findings)
    for each in attachments(replace(week, teams=teams, findings=findings), None):
        cells = [cell for row in csv.reader(StringIO(each.text, newline="")) for cell in row]
        assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
        assert not [cell for cell in cells if "\n" in cell or "\r" in cell]


def test_a_team_gets_its_own_rows_alone(week: WeekReport, session: Session) -> None:
    """The file must say no more than the mail."""
    facts = team_facts(session, example_week.W45, example_week.W46)
    teams, findings = attachments(of_team(week, "team-nlp", facts), "team-nlp")
    assert [row["team"] for row in rows(teams.text)] == ["team-nlp"]
    assert {row["team"] for row in rows(findings.text)} == {"team-nlp"}
    assert attachments(of_team(week, "team-none", facts), "team-none") == ()


def test_what_has_no_price_is_an_empty_cell(week: WeekReport) -> None:
    """0 would be summed."""
    bare = [
        replace(row.breakdown, entries=tuple(replace(one, cost_micros=None) for one in row.breakdown.entries))
        for row in week.teams
    ]
    teams = tuple(replace(row, breakdown=each) for row, each in zip(week.teams, bare, strict=True))
    told = rows(attachments(replace(week, teams=teams), None)[0].text)
    assert {(row["cost"], row["useful"], row["avoidable"]) for row in told} == {("", "", "")}


def test_a_file_is_bounded(week: WeekReport) -> None:
    """A mail of ten thousand findings is one that servers refuse."""
    many = week.findings * (FINDINGS_MOST // len(week.findings) + 1)
    assert len(rows(attachments(replace(week, findings=many), None)[1].text)) == FINDINGS_MOST


def test_the_mail_carries_them_beside_its_words(week: WeekReport) -> None:
    """multipart/mixed: a mailer shows the mail and lists the files; the text names them."""
    content = compose(week, site_url=SITE_URL)
    mail = email.message_from_bytes(edition_message(FLEET, content, SETTINGS, None, MADE_AT), policy=default)
    assert isinstance(mail, EmailMessage)
    parts = list(mail.iter_attachments())
    assert [part.get_filename() for part in parts] == [one.name for one in content.files]
    assert [part.get_content() for part in parts] == [one.text for one in content.files]
    assert content.files_text == "Attached: 2026-W46-teams.csv, 2026-W46-findings.csv"
