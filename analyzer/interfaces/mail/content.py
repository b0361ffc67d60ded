"""What one weekly e-mail says: figures already rounded and words already chosen. Text, HTML and picture print it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Headline:
    """One of the three figures at the top: its value, what it is, how it moved since the week before, and a median."""

    value: str
    name: str
    change: str
    usual: str = ""


@dataclass(frozen=True, slots=True)
class WentLine:
    """One line of "where it went". `klass` is empty where the line above named it; `share` is for bars, 0 to 1."""

    klass: str
    label: str
    amount: str
    percent: str
    share: float
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """One recommendation: owner, what, the lines to paste, what it stands on, what it saves a week (P50)."""

    id: str
    owner: str
    title: str
    how: tuple[str, ...]
    evidence: str
    saves: str
    link: str | None


@dataclass(frozen=True, slots=True)
class Actions:
    """The top recommendations, with its head, its sum and what the bill will show of it."""

    head: str
    unit: str
    rows: tuple[Action, ...]
    together: str
    bill: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column is a name and whose others are figures; the last row is the total."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the mail: a table, paragraphs, or both. One without either is left out whole."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: Table | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.paragraphs and (self.table is None or not self.table.rows)


@dataclass(frozen=True, slots=True)
class Month:
    """How a team stands in the month: spent so far and likely by its end (None: not known yet), in millionths.

    `is_part` says that some of its GPU time has no price and is in neither.
    """

    so_far_micros: int
    month_end_micros: int | None
    is_over: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Extras:
    """What other parts of the ledger add to a week; each is left out whole while nobody gives it.

    `months` are the rows of the fleet's teams by team and whether it was held, `of_months` what is to be said of them;
    `month` is the one of a team's own mail.
    `corrections` are those of earlier weeks; `invoice` says how the prices compare with the invoice.
    """

    months: Mapping[tuple[str | None, bool], Month] = field(default_factory=dict)
    of_months: tuple[str, ...] = ()
    month: Section | None = None
    anomalies: Section | None = None
    requests: Section | None = None
    corrections: tuple[str, ...] = ()
    energy: Section | None = None
    least_free: int = 0  # GPUs that nobody held in any hour
    invoice: str | None = None


@dataclass(frozen=True, slots=True)
class ClassShare:
    """One class of the picture: its share of all, 0 to 1, and the percentage that the report prints."""

    name: str
    share: float
    percent: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of the mail: its name, and its text as CSV."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Footer:
    """Why somebody gets the mail, and how to stop it. `stop_url` is None where no server answers it."""

    why: str
    stop_url: str | None
    stop_address: str | None


@dataclass(frozen=True, slots=True)
class Content:
    """One e-mail's words. `team` is None for the whole fleet's."""

    subject: str
    title: str
    team: str | None
    period: str
    cluster: str | None
    figures: tuple[Headline, Headline, Headline]
    answer: str
    went_head: str
    went: tuple[WentLine, ...]
    classes: tuple[ClassShare, ...]
    actions: Actions | None
    sections: tuple[Section, ...]
    page: str | None
    is_all_clear: bool
    files: tuple[Attachment, ...] = ()
    site_url: str | None = None  # where the pages are; without it nothing is linked

    @property
    def chart_text(self) -> str:
        """The picture in words, for who does not see it."""
        return "Breakdown: " + ", ".join(f"{one.name} {one.percent}%" for one in self.classes)

    @property
    def files_text(self) -> str:
        """What is attached, in a line; empty where nothing is."""
        return f"Attached: {', '.join(each.name for each in self.files)}" if self.files else ""
