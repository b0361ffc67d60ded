"""A mail says what the report says: the same figures, the same sums, and of a team its own alone."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from analyzer.finops.charges.sums import Charged
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Content, Extras, Footer, Month, Section, mail_html, whole_ids
from analyzer.interfaces.mail.message import mail_text
from analyzer.interfaces.mail.sections import _LARGEST, REQUESTS_SHOWN, request_lines
from analyzer.interfaces.mail.team_week import of_team, team_facts
from analyzer.interfaces.text.week_text import week_text
from analyzer.ledger.coverage import Measured
from analyzer.queries.ledger_query import Breakdown
from analyzer.recommendations.recommendation import shell
from analyzer.reports.week import WeekReport
from analyzer.states import BOOKINGS
from analyzer.text.layout import TextLayout
from collector.store.session import Session
from tests.analyzer.capacity.gate_asking import decided
from tests.analyzer.reports import example_week

FOOTER = Footer(
    "gpu-owners@example.com gets this once a week, never more.",
    "https://gpuledger.example/mail/stop/0123.abcd",
    "stop@example.com",
)
PRICED = date(2026, 11, 1)
NLP = "team-nlp"
HOSTILE = "<script>alert(1)</script>\r\nBcc: evil@example.com\x1b[31m"


def content_of(week: WeekReport) -> Content:
    """Return the fleet's mail."""
    return compose(week, oldest_price=PRICED, site_url="https://gpuledger.example")


def nlp_of(week: WeekReport, session: Session) -> WeekReport:
    """Return the week of one team."""
    return of_team(week, "team-nlp", team_facts(session, example_week.W45, example_week.W46))


def units(text: str) -> int:
    """Return a printed amount as an integer of its last digit."""
    return int(text.replace(",", "").replace(".", "").lstrip("$"))


def test_the_text_part_reads_as_drawn(week: WeekReport, golden: Callable[[str, str], None]) -> None:
    """The text part is the whole mail for who reads no HTML."""
    golden("mail/week.txt", mail_text(content_of(week), FOOTER))


def test_a_teams_mail_reads_as_drawn(week: WeekReport, session: Session, golden: Callable[[str, str], None]) -> None:
    """The same, of one team."""
    own = compose(nlp_of(week, session), team="team-nlp", oldest_price=PRICED, site_url="https://gpuledger.example")
    golden("mail/team.txt", mail_text(own, FOOTER))


def charged_of(week: WeekReport) -> WeekReport:
    """Return the week at which one team is charged nine tenths of what its GPUs cost."""
    costs = [(row, row.breakdown.cost_micros or 0) for row in week.teams]
    return replace(
        week,
        charged=tuple(
            Charged(row.name, row.held, row.breakdown.milliseconds, cost, cost * 9 // 10 if row.name == NLP else cost)
            for row, cost in costs
        ),
    )


def test_what_is_charged_stands_in_the_mail_as_in_the_report(
    week: WeekReport, golden: Callable[[str, str], None]
) -> None:
    """A team lead that reads the cost in his mail would be charged something else; every column adds up."""
    report = charged_of(week)
    content = content_of(report)
    block = mail_text(content, FOOTER).partition("\nCHARGED")
    golden("mail/charged.txt", f"CHARGED{block[2].partition(chr(10) * 2)[0]}\n")
    (table,) = [section.table for section in content.sections if section.title == "charged"]
    assert table is not None
    printed = [row.split() for row in week_text(report, TextLayout(80)).splitlines()]
    for row in table.rows:
        assert any(line[-3:] == list(row[1:]) for line in printed), row
        assert all(cell in mail_html(content, FOOTER, "chart") for cell in row)
    for column in (1, 2, 3):
        assert sum(units(row[column]) for row in table.rows[:-1]) == units(table.rows[-1][column])
    assert not any(section.title == "charged" for section in content_of(week).sections)


def test_a_team_reads_what_it_is_charged_and_nobody_elses(week: WeekReport, session: Session) -> None:
    """What others pay is theirs to know."""
    report = charged_of(week)
    facts = team_facts(session, example_week.W45, example_week.W46)
    own = compose(of_team(report, NLP, facts), team=NLP)
    (section,) = [section for section in own.sections if section.title == "charged"]
    assert section.paragraphs == ("$30,139, for GPUs that cost $33,488: the platform bears the remaining $3,349.",)
    other = compose(of_team(report, "team-vision", facts), team="team-vision")
    assert not any(section.title == "charged" for section in other.sections)


def test_the_subject_is_worth_reading_alone(week: WeekReport) -> None:
    """Most people read no more of it."""
    assert content_of(week).subject == "GPUs W46: $67,738, useful 54%, avoidable $9,226 (down $612)"


def test_figures_are_those_of_report_week(week: WeekReport) -> None:
    """Two figures for one question, and neither is believed."""
    printed = week_text(week, TextLayout(80))
    content = content_of(week)
    rows = [line for line in content.went if line.label and ";" not in line.label]
    assert len(rows) > 6
    for line in rows:
        assert any(
            line.label in row and f" {line.amount} " in row and f" {line.percent} " in f"{row} "
            for row in printed.splitlines()
        ), line
    assert content.actions is not None
    for action in content.actions.rows:
        assert any(action.id in row and row.endswith(action.saves) for row in printed.splitlines()), action
    assert f"Together {content.actions.together}" in printed
    (teams,) = [section.table for section in content.sections if section.title == "teams"]
    assert teams is not None
    for name, cost, avoidable, useful in teams.rows:
        wanted = (cost, avoidable, useful.replace("\u00a0", " "))
        assert any(row.startswith(f"  {name} ") and all(each in row for each in wanted) for row in printed.splitlines())


def test_every_column_adds_up(week: WeekReport) -> None:
    """Whoever adds up what is printed gets the total that is printed."""
    content = content_of(week)
    *rows, total = content.went
    assert sum(units(line.amount) for line in rows) == units(total.amount) == 67_738
    assert sum(units(line.percent) for line in rows) == units(total.percent) == 1000
    assert content.actions is not None
    assert sum(units(action.saves) for action in content.actions.rows) == units(content.actions.together)
    (teams,) = [section.table for section in content.sections if section.title == "teams"]
    assert teams is not None
    assert sum(units(row[1]) for row in teams.rows[:-1]) == units(teams.rows[-1][1])


def test_text_and_html_say_the_same_words(week: WeekReport) -> None:
    """The text part is a twin, not a pointer to the other."""
    content = content_of(week)
    text, html = " ".join(mail_text(content, FOOTER).split()), " ".join(mail_html(content, FOOTER, "c").split())
    html = re.sub(r"<a [^>]*>([rf]-[a-z0-9]+)</a>", r"\1", html)
    words = [line.amount for line in content.went]
    words += [paragraph for section in content.sections for paragraph in section.paragraphs]
    assert content.actions is not None
    words += [action.evidence for action in content.actions.rows]
    for word in words:
        plain = " ".join(word.replace("\u00a0", " ").split())
        assert plain in text
        escaped = plain.replace("&", "&amp;").replace('"', "&#34;").replace("'", "&#39;").replace(">", "&gt;")
        assert escaped in html.replace("\u00a0", " ")


def test_a_team_sees_its_own_figures_alone(week: WeekReport, session: Session) -> None:
    """What other teams spend, run and lose is theirs to tell."""
    own = compose(nlp_of(week, session), team="team-nlp", oldest_price=PRICED)
    text = mail_text(own, FOOTER)
    assert own.subject.startswith("team-nlp's GPUs W46: $33,488, useful 75%, avoidable $4,123")
    assert "llama-sft" in text
    for other in (
        "team-vision",
        "team-search",
        "team-speech",
        "debug-asr",
        "det-sweep",
        "notebooks",
        "67,738",
        "rack-3",
    ):
        assert other not in text


def test_a_team_that_held_nothing_gets_a_mail_that_says_so(week: WeekReport, session: Session) -> None:
    """A team of the settings that has no run in a week is no error."""
    facts = team_facts(session, example_week.W45, example_week.W46)
    own = compose(of_team(week, "team-none", facts), team="team-none")
    assert own.went[:-1] == ()
    assert "no data" in own.subject


def test_what_nobody_gives_is_left_out_whole(week: WeekReport) -> None:
    """An empty heading is a question that every reader asks."""
    titles = [section.title for section in content_of(week).sections]
    assert titles == ["the largest line that is not useful", "teams", "data quality and accuracy"]
    text = mail_text(content_of(week), FOOTER)
    assert "ENERGY" not in text
    assert "BUDGET" not in text


def test_what_others_add_has_its_place(week: WeekReport) -> None:
    """Energy, anomalies, requests, budgets and the invoice come from other parts of the ledger."""
    months = {(row.name, row.held): Month(10_400_000, 40_000_000, row.name == "team-vision") for row in week.teams}
    extras = Extras(
        months=months | {("team-idle", True): Month(7_000_000, 9_000_000)},
        of_months=("team-vision is over.",),
        energy=Section("energy", ("11.29 MWh at the GPUs.",)),
        anomalies=Section("anomalies", ("ranker-serve costs twice as much.",)),
        invoice="October matched its invoice within 0.4%",
    )
    content = compose(week, extras=extras)
    assert [section.title for section in content.sections] == [
        "the largest line that is not useful",
        "teams",
        "anomalies",
        "energy",
        "data quality and accuracy",
    ]
    text = mail_text(content, FOOTER)
    assert "40 !" in text
    (teams,) = [section.table for section in content.sections if section.title == "teams"]
    assert teams is not None
    for column in (4, 5):
        *rows, total = [units(row[column].removesuffix(" !")) for row in teams.rows]
        assert sum(rows) == total
    assert teams.rows[-3][0] == "team-idle"  # it held nothing this week, and its month counts
    assert teams.rows[-2][0] == "nobody"
    assert "matched its invoice" in " ".join(text.split())
    assert "40 !" in mail_html(content, FOOTER, None)


def test_no_id_is_torn_apart_and_none_is_markup(week: WeekReport) -> None:
    """ "r-" at the end of a line and "9bgxx" on the next is nobody's id; what is around it stays text."""
    shown = str(whole_ids("<b>r-9bgxx</b> & f-f3p8a, not for-ever"))
    whole = '<span style="white-space:nowrap;">{}</span>'
    assert shown == f"&lt;b&gt;{whole.format('r-9bgxx')}&lt;/b&gt; &amp; {whole.format('f-f3p8a')}, not for-ever"
    assert whole.format("r-3mx8") in mail_html(compose(week), FOOTER, None)


def test_each_id_leads_to_its_page(week: WeekReport) -> None:
    """Who reads r-3mx8 in a mail does not look for it; what is no address of a page is no link."""
    html = mail_html(content_of(week), FOOTER, None)
    links = re.findall(r'<a [^>]*href="https://gpuledger\.example(/[^"]+)"[^>]*>([rf]-[a-z0-9]+)</a>', html)
    ids = {word: address for address, word in links}
    assert ids["r-3mx8"] == "/recommendations?week=2026-W46#r-3mx8"
    assert ids["f-7kq2"] == "/findings/f-7kq2?week=2026-W46"
    assert "<a " not in str(whole_ids("r-3mx8", "javascript:alert(1)", "2026-W46"))
    assert "<b>" not in str(whole_ids("r-3mx8 <b>", 'https://x.example/"<b>', "2026-W46"))


def test_the_largest_line_that_is_not_useful_has_an_answer(week: WeekReport) -> None:
    """A director's first question: also where no run is to blame, because nobody held them."""
    (section, *_) = compose(week, extras=Extras(least_free=22)).sections
    (told,) = section.paragraphs
    assert told.startswith(
        "Unallocated: $13,485, 19.9% of all, 6,848.0 GPU-hours. 22 GPUs or more were free in every hour."
    )
    assert "gpuledger capacity demand" in told


def test_every_line_that_no_recommendation_can_be_against_has_an_answer() -> None:
    """What a new state is called must not leave the question open."""
    labels = {each.label for each in BOOKINGS if each.klass not in ("useful", "avoidable")}
    assert labels == set(_LARGEST)


@pytest.mark.parametrize(
    "line", ["scancel 81234", "kubectl delete job x", "  kubectl  scale deploy/x --replicas=0", "qdel 7"]
)
def test_no_mail_has_a_line_that_ends_a_job(week: WeekReport, line: str) -> None:
    """It goes to a list: who pastes it may end another team's work."""
    first = replace(week.recommendations[0], artefacts=(shell(line),))
    text = mail_text(compose(replace(week, recommendations=(first,))), FOOTER)
    assert line.strip() not in text
    assert f"gpuledger recommendations show {first.id}" in text


def test_a_thousand_requests_are_no_mail_of_a_thousand_lines() -> None:
    """A mail over 100 KB is not made, and one team's script would take everybody's mail away."""
    lines = request_lines([decided()] * 1_000, None)
    assert len(lines) == REQUESTS_SHOWN + 1
    assert lines[-1] == "and 980 more (full list: gpuledger capacity request list)"
    assert request_lines([decided()] * REQUESTS_SHOWN, "team-nlp") == lines[:-1]
    assert request_lines([decided()], "team-vision") == ()


def test_a_clear_week_says_so_and_only_where_it_was_measured(week: WeekReport) -> None:
    """All clear is a claim, and silence proves none."""
    useful = tuple(entry for entry in week.breakdown.entries if entry.klass in ("useful", "spare"))
    bare = replace(week, breakdown=Breakdown(useful), findings=(), recommendations=(), previous=None, teams=())
    clear = replace(bare, not_judged=())
    content = compose(clear)
    assert content.is_all_clear
    assert content.subject.endswith("all clear")
    assert content.actions is None
    assert content.answer.startswith("All clear")
    blind = compose(replace(clear, measured=Measured(1000, 60, ())))
    assert not blind.is_all_clear
    assert "all clear" not in blind.subject
    assert bare.not_judged
    assert not compose(bare).is_all_clear, "what a rule could not look for may be there"


def test_without_prices_the_mail_is_of_time(week: WeekReport) -> None:
    """No price is guessed, and hours are worth reading too."""
    entries = tuple(replace(entry, cost_micros=None) for entry in week.breakdown.entries)
    advice = tuple(replace(one, saves_micros=None) for one in week.recommendations)
    unpriced = replace(week, breakdown=Breakdown(entries), previous=None, teams=(), recommendations=advice)
    content = compose(unpriced)
    assert content.went_head == "GPU-hours"
    assert content.subject == "GPUs W46: 32,256 GPU-hours, useful 51%, avoidable 4,459 GPU-hours"
    assert "$" not in mail_text(content, FOOTER).replace("$ ", "")


@pytest.mark.parametrize("field", ["team", "run", "cluster"])
def test_a_hostile_name_stays_a_name(week: WeekReport, field: str) -> None:
    """Names come from who runs jobs: they must write no tag, no header and no control character."""
    advice = week.recommendations
    if field == "run":
        advice = tuple(replace(one, subject=HOSTILE, why=HOSTILE) for one in advice)
    teams = tuple(replace(row, name=HOSTILE) if row.held and field == "team" else row for row in week.teams)
    hostile = replace(
        week, teams=teams, recommendations=advice, cluster=HOSTILE if field == "cluster" else week.cluster
    )
    content = compose(hostile, team=HOSTILE if field == "team" else None, site_url="https://gpuledger.example")
    html, text = mail_html(content, FOOTER, None), mail_text(content, FOOTER)
    assert "<script" not in html.lower()
    assert "&lt;script&gt;" in html
    for part in (html, text, content.subject):
        assert "\x1b" not in part
        assert "\r" not in part
    assert not any(line.startswith("Bcc:") for line in text.splitlines())
