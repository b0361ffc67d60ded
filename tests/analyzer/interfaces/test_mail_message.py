"""The mail as it travels: its tree, its headers, its size, and that nothing in it runs or is fetched."""

import email
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import settings as tried
from hypothesis import strategies as st
from PIL import Image

from analyzer.errors import ConfigError
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import SCALE, WIDTH, Content, Footer
from analyzer.interfaces.mail.editions import Edition, edition_message, editions
from analyzer.interfaces.mail.message import HTML_BYTES, Envelope, message
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.reports.week import WeekReport

SETTINGS = MailSettings(
    sender="gpuledger@example.com",
    host="127.0.0.1",
    recipients=("gpu-owners@example.com",),
    teams={"team-nlp": "nlp@example.com"},
    stop_address="stop@example.com",
)
SITE_URL = "https://gpuledger.example"
FLEET = Edition("fleet", "gpu-owners@example.com", None)
MADE_AT = 1_795_000_000_000_000
FOOTER = Footer("Once a week.", "https://gpuledger.example/mail/stop/1.2", "stop@example.com")


def parsed(raw: bytes) -> EmailMessage:
    """Return a mail as a reader's program sees it."""
    found = email.message_from_bytes(raw, policy=default)
    assert isinstance(found, EmailMessage)
    assert not found.defects
    return found


def mail_of(week: WeekReport, token: str | None = "0123.abcd") -> EmailMessage:
    """Return the fleet's mail."""
    content = compose(week, site_url=SITE_URL)
    return parsed(edition_message(FLEET, content, SETTINGS, token, MADE_AT))


def part(mail: EmailMessage, kind: str) -> EmailMessage:
    """Return its one part of a type."""
    (found,) = [each for each in mail.walk() if each.get_content_type() == kind]
    assert isinstance(found, EmailMessage)
    return found


class Seen(HTMLParser):
    """What an HTML part refers to, and what could run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.sources: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its addresses."""
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.sources += [value or "" for name, value in attrs if name in ("src", "background", "action")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_the_tree_is_text_then_html_then_the_picture(week: WeekReport) -> None:
    """Mailers show the last alternative that they can; the picture belongs to all of it, the files stand beside."""
    tree = ["multipart/related", "multipart/alternative", "text/plain", "text/html", "image/png"]
    bare = replace(compose(week), files=())
    for mail, wanted in (
        (mail_of(week), ["multipart/mixed", *tree, "text/csv", "text/csv"]),
        (parsed(edition_message(FLEET, bare, SETTINGS, "0.1", MADE_AT)), tree),
    ):
        assert [each.get_content_type() for each in mail.walk()] == wanted
        (related,) = [each for each in mail.walk() if each.get_content_type() == "multipart/related"]
        assert related.get_param("type") == "multipart/alternative"
        assert [each["MIME-Version"] for each in mail.walk()] == ["1.0", *[None] * (len(wanted) - 1)]


def test_the_headers_are_those_of_a_weekly_list(week: WeekReport) -> None:
    """Filters, absence notes and the button that stops it go by these."""
    mail = mail_of(week)
    assert {name: str(mail[name]) for name in mail if name not in ("Content-Type", "MIME-Version")} == {
        "From": "gpuledger alpha <gpuledger@example.com>",
        "To": "gpu-owners@example.com",
        "Subject": "GPUs W46: $67,738, useful 54%, avoidable $9,226 (down $612)",
        "Date": "Wed, 18 Nov 2026 11:06:40 +0000",
        "Message-ID": f"<week.2026-w46.{FLEET.id}@example.com>",
        "List-Id": "weekly report of alpha <week.alpha.gpuledger.example>",
        "List-Unsubscribe": "<https://gpuledger.example/mail/stop/0123.abcd>, <mailto:stop@example.com?subject=stop>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
    }


def test_made_twice_it_has_the_same_bytes(week: WeekReport) -> None:
    """What is sent again after a crash must be the same mail."""
    content = compose(week, site_url=SITE_URL)
    assert edition_message(FLEET, content, SETTINGS, "0.1", MADE_AT) == edition_message(
        FLEET, content, SETTINGS, "0.1", MADE_AT
    )


def test_a_link_to_stop_is_never_folded_into_code_words(week: WeekReport) -> None:
    """Mailers do not decode them there, and the button would lead nowhere."""
    token = f"{'a' * 20}.{'b' * 64}"
    content = compose(week, site_url=SITE_URL)
    raw = edition_message(FLEET, content, SETTINGS, token, MADE_AT)
    assert f"<https://gpuledger.example/mail/stop/{token}>".encode() in raw
    assert max(map(len, raw.split(b"\r\n"))) < 998
    raw.decode("ascii")


def test_nothing_in_it_runs_or_is_fetched(week: WeekReport) -> None:
    """Readers must not be told on by opening it; and every link is a GET of ours."""
    mail = mail_of(week)
    seen = Seen()
    seen.feed(part(mail, "text/html").get_content())
    assert seen.tags.isdisjoint({"script", "link", "iframe", "object", "form", "input", "svg", "base"})
    assert seen.handlers == []
    assert seen.links
    assert all(link.startswith("https://gpuledger.example/") for link in seen.links)
    assert seen.sources == [f"cid:{part(mail, 'image/png')['Content-ID'][1:-1]}"]


def test_the_picture_is_drawn_twice_as_large_and_said_in_words(week: WeekReport) -> None:
    """It must be sharp on a phone, and known to who does not see it."""
    mail = mail_of(week)
    png = part(mail, "image/png")
    picture = Image.open(BytesIO(png.get_content()))
    assert picture.width == SCALE * WIDTH
    assert png.get_content_disposition() == "inline"
    html = part(mail, "text/html").get_content()
    assert f'width="{WIDTH}"' in html
    assert 'alt="Breakdown: useful 53.6%, avoidable 13.6%' in html


def test_its_html_is_small_and_too_much_of_it_is_refused(week: WeekReport) -> None:
    """Gmail cuts what is over 102 KB, and with it the link that stops the mail."""
    html = part(mail_of(week), "text/html").get_content()
    assert len(html.encode()) < 50_000
    assert "max-width:640px" in html
    endless = replace(compose(week), answer="x" * HTML_BYTES)
    with pytest.raises(ConfigError, match="100 KB"):
        edition_message(FLEET, endless, SETTINGS, None, MADE_AT)


def test_a_fleet_of_a_thousand_teams_fits(week: WeekReport) -> None:
    """The table is cut, and says so; its total is that of all."""
    many = replace(
        week,
        teams=tuple(
            replace(row, name=f"team-{number:04d}-{place}-{'x' * 80}")
            for number in range(250)
            for place, row in enumerate(week.teams)
        ),
        breakdown=replace(
            week.breakdown,
            entries=tuple(
                replace(entry, milliseconds=entry.milliseconds * 250, cost_micros=(entry.cost_micros or 0) * 250)
                for entry in week.breakdown.entries
            ),
        ),
    )
    mail = parsed(edition_message(FLEET, compose(many), SETTINGS, None, MADE_AT))
    assert "and 1,210 more" in part(mail, "text/plain").get_content()


def test_each_address_of_each_list_has_an_id_of_its_own(week: WeekReport) -> None:
    """The same period to the same reader is one mail; another reader's is another."""
    every = editions(replace(SETTINGS, recipients=("a@example.com", "b@example.com", "a@EXAMPLE.com")))
    content = compose(week)
    ids = {parsed(edition_message(one, content, SETTINGS, None, MADE_AT))["Message-ID"] for one in every}
    assert len(every) == len(ids) == 3


HEADERS = st.text(st.characters(codec="utf-8"), max_size=80)


@tried(max_examples=60)
@example(cluster="", team="\u2029", subject="\u20280")
@given(cluster=HEADERS, team=HEADERS, subject=HEADERS)
def test_no_name_writes_a_header(cluster: str, team: str, subject: str) -> None:
    """A line end in a name would begin a header of its writer's choice: a Bcc, another From."""
    content = Content(
        subject, "t", team, "2026-W46", cluster, _figures(), "", "$", (), (), None, (), None, False, (), SITE_URL
    )
    raw = edition_message(Edition(f"team:{team}", "nlp@example.com", team), content, SETTINGS, "0.1", MADE_AT)
    head = raw.split(b"\r\n\r\n")[0]
    mail = email.message_from_bytes(raw, policy=default)
    assert sorted(set(mail.keys())) == sorted(mail.keys())
    assert "Bcc" not in mail
    assert mail["To"] == "nlp@example.com"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert b"\n" not in head.replace(b"\r\n", b"")


def _figures() -> tuple:  # type: ignore[type-arg]
    from analyzer.interfaces.mail.content import Headline

    return (Headline("1", "a", ""), Headline("2", "b", ""), Headline("3", "c", ""))


def test_without_a_server_nothing_promises_a_click() -> None:
    """A List-Unsubscribe-Post without an https link would be a lie."""
    content = Content("s", "t", None, "2026-W46", None, _figures(), "", "$", (), (), None, (), None, False)
    envelope = Envelope(
        "a@example.com",
        "gpuledger",
        "b@example.com",
        "w",
        "w.x",
        "<1@x>",
        datetime(2026, 11, 18, tzinfo=UTC),
        replace(FOOTER, stop_url=None),
    )
    mail = parsed(message(content, envelope))
    assert "List-Unsubscribe-Post" not in mail
    assert mail["List-Unsubscribe"] == "<mailto:stop@example.com?subject=stop>"
