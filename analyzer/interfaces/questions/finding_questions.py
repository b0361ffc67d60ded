"""The questions to what was judged: findings, what answers them, and what came of that."""

from dataclasses import dataclass

from analyzer.errors import LedgerError
from analyzer.ids import by_id
from analyzer.interfaces.html import finding_html
from analyzer.interfaces.questions.question import Check, Question, add_part, argument
from analyzer.interfaces.text.compare_text import compare_text
from analyzer.interfaces.text.finding_explain import explain_data, explain_text
from analyzer.interfaces.text.finding_text import check_words, findings_text, unjudged_text
from analyzer.interfaces.text.recommendation_files import lines_file, spreadsheet, table, ticket
from analyzer.interfaces.text.recommendation_text import Listed, recommendation_text, recommendations_text
from analyzer.interfaces.text.savings_text import savings_text
from analyzer.ledger.coverage import Unjudged, fleet
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import Offer
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.compare import Comparison, checked_kind, compare_at, compare_runs
from analyzer.reports.findings import Explained, FindingsReport
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.reports.run import run_names
from analyzer.text.layout import TextLayout


@dataclass(frozen=True, slots=True)
class NotJudged:
    """The rules that lacked a signal in a period; `names` are those of the runs among their subjects, by id."""

    period: Period
    rules: list[Unjudged]
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class _ShownAdvice:
    """One recommendation of a list, whether it stands or is held back."""

    one: Recommendation
    listed: Listed

    @property
    def period(self) -> Period:
        """Of which period the list is."""
        return self.listed.period


def _findings(reader: Reader, request: Request) -> FindingsReport | NotJudged:
    period = reader.period(request.since, request.until)
    if not request.unjudged:
        return reader.list_findings(period, everything=request.everything, sure=request.sure)
    rules = reader.unjudged(period)
    return NotJudged(period, rules, run_names(reader.session, {rule.subject for rule in rules}))


def _findings_text(report: FindingsReport | NotJudged, request: Request, layout: TextLayout) -> str:
    if isinstance(report, NotJudged):
        return unjudged_text(report.period, report.rules, report.names, layout, request.top)
    return findings_text(report, layout, request.top)


def _explain(reader: Reader, request: Request) -> Explained:
    _hint_kind(request.subject, "r-", "a recommendation: gpuledger recommendations show")
    return reader.explain(request.subject, reader.period(request.since, request.until))


def _show(reader: Reader, request: Request) -> _ShownAdvice:
    subject = request.subject or ""
    _hint_kind(subject, "f-", "a finding: gpuledger findings explain")
    listed = _listed(reader, request, reader.offered(subject, reader.period(request.since, request.until)))
    listing = "gpuledger recommendations --all lists them; --since names another period"
    absent = f"this period has no recommendation {request.subject!r}: {listing}"
    return _ShownAdvice(by_id(listed.advice, subject, absent), listed)


def _hint_kind(subject: str | None, prefix: str, kind: str) -> None:
    """Refuse an id of the other kind.

    Raises:
        LedgerError: it is one; the sentence has the command that takes it.
    """
    if subject is not None and subject.startswith(prefix):
        raise LedgerError(f"{subject} is {kind} {subject}")


def _listed(reader: Reader, request: Request, offer: Offer) -> Listed:
    owned, currency = fleet(reader.session, offer.period), reader.settings.currency
    return Listed(offer.period, tuple(offer.advice), currency, owned, request.everything, reader.part)


def _compare(reader: Reader, request: Request) -> Comparison:
    checked_kind(request.other, request.at)
    site, subject = (reader.session, reader.settings.timezone, reader.settings.currency), request.subject or "last"
    return compare_at(*site, subject, request.at) if request.at else compare_runs(*site, subject, request.other or "")


FINDINGS = Question(
    "findings",
    _findings,
    lambda report: "insufficient data" if isinstance(report, NotJudged) else "findings",
    _findings_text,
    lambda report: {"not_judged": report.rules} if isinstance(report, NotJudged) else report,
    of_part=True,
    about="What was avoidable, sorted by money; no two findings claim the same GPU-second.",
    arguments=(
        argument("--all", action="store_true", dest="everything", help="also list suspicions and muted findings"),
        argument("--check", action="store_true", help="exit 1 if a finding is new, of high confidence and still open"),
        argument("--sure", choices=("high", "medium", "low"), help="list only findings of this confidence"),
        argument("--unjudged", action="store_true", help="list the rules with insufficient data instead, and why"),
        add_part,
    ),
    check=Check(lambda report: report["alarming"], check_words),
)
EXPLAIN = Question(
    "explain",
    _explain,
    lambda explained: explained.finding.id,
    lambda explained, _, layout: explain_text(explained, layout),
    explain_data,
    forms={"html": lambda explained, _: finding_html(explained)},
    of_part=True,
    about="One finding: the evidence, the reasoning, and what would prove it wrong.",
    arguments=(argument("subject", metavar="ID", help="the finding's id"),),
)
RECOMMEND = Question(
    "recommend",
    lambda reader, request: _listed(reader, request, reader.offer(reader.period(request.since, request.until))),
    lambda _: "recommendations",
    lambda listed, request, layout: recommendations_text(listed, layout, request.top),
    lambda listed: {"items": listed.advice if listed.everything else listed.standing},
    forms={"csv": lambda listed, _: spreadsheet(listed), "markdown": lambda listed, _: table(listed)},
    of_part=True,
    about="""Recommendations with their estimated weekly savings, largest first.

    It changes nothing: the owner pastes the lines that `show` prints. Savings are predictions, and findings share no
    GPU time, so that savings may be added up. --all also lists what a guard holds back (it does not pay, it comes too
    soon, it was rejected) and alternatives to a better one, with the reason.
    """,
    arguments=(
        argument("--all", action="store_true", dest="everything", help="also list what is held back, and why"),
        add_part,
        argument("--schema", action="store_true", help="print only the JSON schema of a recommendation"),
    ),
)
SHOW = Question(
    "show",
    _show,
    lambda shown: shown.one.id,
    lambda shown, _, layout: recommendation_text(
        shown.one, shown.listed.currency, shown.listed.period.timezone, layout
    ),
    lambda shown: {"recommendation": shown.one},
    forms={
        "slurm": lambda shown, _: lines_file(shown.one, "slurm"),
        "kubernetes": lambda shown, _: lines_file(shown.one, "kubernetes"),
        "markdown": lambda shown, _: ticket(shown.one, shown.listed.currency, shown.listed.period.timezone),
    },
    of_part=True,
    about="""One recommendation: from where to where, why, savings and cost, what was checked, and the lines to paste.

    slurm and kubernetes print only the lines, to paste or to pipe; markdown is a ticket for an issue tracker; json is
    the whole document (its schema: gpuledger recommendations --schema).
    """,
    arguments=(argument("subject", metavar="ID", help="the recommendation's id"),),
)
SAVINGS = Question(
    "savings",
    lambda reader, _: reader.savings(),
    lambda _: "savings",
    lambda report, request, layout: savings_text(report, layout, request.top),
    of_part=True,
    about="Savings of recommendations: predicted and realized, and the accuracy of the predictions.",
    is_dated=False,
)
COMPARE = Question(
    "compare",
    _compare,
    lambda found: found.subject,
    lambda found, _, layout: compare_text(found, layout),
    of_part=True,
)
FINDING_QUESTIONS = (FINDINGS, EXPLAIN, RECOMMEND, SHOW, SAVINGS, COMPARE)
