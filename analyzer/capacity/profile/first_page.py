"""What page one of a profile says, rounded and in words: the page and its twin in text print these same figures."""

from dataclasses import dataclass

from analyzer.capacity.profile.decision_view import DecisionView
from analyzer.capacity.profile.evidence import EvidenceRow, days_words, evidence, ratio
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.signature import Envelope, digest
from analyzer.capacity.profile.spent import breakdown_of
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.period import local
from analyzer.text.words import (
    NO_BREAK,
    counted,
    day,
    gpu_hours,
    hours_decimals,
    money,
    money_decimals,
    plain,
    symbol,
)

_TEAMS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FirstPage:
    """Page one. `decided` is what the gates say of a request, None without one: then `answer` says what was measured.

    `lines` are where the time went: of the runs that were judged, where those are not all.
    """

    title: str
    site: str
    whose: str
    held: str
    decided: DecisionView | None
    answer: str
    went: str
    lines: tuple[BreakdownLine, ...]
    sign: str
    evidence: tuple[EvidenceRow, ...]
    caveats: tuple[str, ...]
    made: str
    key: str
    sha256: str


def first_page(envelope: Envelope, decided: DecisionView | None = None) -> FirstPage:
    """Return what page one says of a profile, and of a request that was judged by it."""
    profile = envelope.profile
    judged = decided.booked if decided else ()
    breakdown = breakdown_of(judged or profile.booked)
    said = breakdown_lines(breakdown) if breakdown.entries else ()
    runs = counted(len(profile.runs), "run")
    return FirstPage(
        title=f"Capacity profile{f' {plain(decided.request_id)}' if decided else ''}",
        site=_site(profile),
        whose=_whose(profile),
        held=_held(profile),
        decided=decided,
        answer=_plain_answer(profile, said),
        went="Where the time of the judged runs went" if judged else f"Where {_hours(profile)} of {runs} went",
        lines=said,
        sign=symbol(profile.currency).strip(),
        evidence=tuple(evidence(profile)),
        caveats=tuple(plain(text) for text in profile.caveats),
        made=_made(profile),
        key=_key(envelope),
        sha256=digest(profile),
    )


def _plain_answer(profile: CapacityProfile, said: "tuple[BreakdownLine, ...]") -> str:
    """Return what was measured in a sentence or two, as page one's table rounds it."""
    shares = {line.klass: line.percent for line in said if line.level in ("class", "only")}
    useful, avoidable = shares.get("useful", "0.0"), shares.get("avoidable")
    answer = f"{useful}{NO_BREAK}% of this GPU time was useful"
    if not profile.measured_ratio:
        return "Nothing of this GPU time was measured: what of it was useful or avoidable is not known."
    if avoidable is None:
        whole = profile.measured_ratio == 1
        return f"{answer}; nothing avoidable was found{'' if whole else ' in what of it was measured'}."
    worst = max(
        (line for line in said if line.klass == "avoidable" and line.level in ("row", "only")),
        key=lambda line: line.share,
    )
    what = f"{avoidable}{NO_BREAK}% was avoidable"
    most = f", most of it {worst.label} ({worst.percent}{NO_BREAK}%)" if worst.level == "row" else f": {worst.label}"
    return f"{answer}; {what}{most}.{_first_step(profile)}"


def _first_step(profile: CapacityProfile) -> str:
    if not profile.advice:
        return ""
    best = profile.advice[0]
    speed = f"{best.speedup_permille.p50 / 1000:.2f}x"
    who = ", ".join(map(plain, best.run_names))
    return f" Not done yet: {who}: {plain(best.title)} ({plain(best.id)}); the same GPUs then do about {speed}."


def _site(profile: CapacityProfile) -> str:
    made = local(profile.made.at_us, profile.timezone)
    where = "cluster" if profile.made.by == "collector" else "host"
    return f"{where} {plain(profile.made.site)}, {day(made).split(' ', 1)[1]} {made.year}"


def _whose(profile: CapacityProfile) -> str:
    teams = sorted({profile.team} if profile.team else {run.team for run in profile.runs if run.team})
    more = f" and {len(teams) - _TEAMS_SHOWN} more" if len(teams) > _TEAMS_SHOWN else ""
    team = ", ".join(map(plain, teams[:_TEAMS_SHOWN])) + more if teams else "no team known"
    project = f", project {plain(profile.project)}" if profile.project else ""
    days = days_words(profile.since_us, profile.until_us, profile.timezone)
    year = local(profile.until_us - 1, profile.timezone).year
    return f"{team}{project}; {days} {year}, {profile.timezone}"


def _held(profile: CapacityProfile) -> str:
    cost = f" = {money(profile.micros, profile.currency, money_decimals(profile.micros))}" if profile.micros else ""
    runs = counted(len(profile.runs), "run")
    return f"{runs}, {_hours(profile)}{cost}; {ratio(profile.measured_ratio)} of it measured"


def _hours(profile: CapacityProfile) -> str:
    return f"{gpu_hours(profile.milliseconds, hours_decimals(profile.milliseconds))} GPU-hours"


def _made(profile: CapacityProfile) -> str:
    made = profile.made
    by = "measured by" if made.by == "collector" else "self-measured on"
    prices = f", prices {plain(made.prices_version)}" if made.prices_version else ", no prices"
    return f"{by} {plain(made.site)}; gpuledger {plain(made.tool_version)}, rules {plain(made.rules_version)}{prices}"


def _key(envelope: Envelope) -> str:
    if envelope.signature is None:
        return "not signed"
    key = envelope.signature.key_id
    return f"signed by key {' '.join(key[place : place + 4] for place in range(0, len(key), 4))}"
