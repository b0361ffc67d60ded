"""Page one of a profile, rounded and in words, and as text: the page and its twin in text print the same figures."""

from dataclasses import dataclass

from analyzer.capacity.profile.details import breakdown_of
from analyzer.capacity.profile.evidence import EvidenceRow, days_words, evidence, ratio
from analyzer.capacity.profile.facts import CapacityProfile, StateHours
from analyzer.capacity.profile.signature import Envelope, digest
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines, went
from analyzer.period import local
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import (
    counted,
    day,
    gpu_hours,
    hours_decimals,
    money,
    money_decimals,
    plain,
    symbol,
)


@dataclass(frozen=True, slots=True)
class ShownGate:
    """One gate: what the request has, what is asked of it, and PASS, FAIL or N/E."""

    label: str
    value: str
    bar: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ShownOption:
    """One thing that can be decided: "A approve as asked", "+32", "15", "$111,820.80", "yes", "40% waits"."""

    what: str
    gpus: str
    to_buy: str
    price: str
    in_time: str
    if_wrong: str
    advised: bool = False


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A request and its verdict. `asked` has a line each for what, price and why; `span` heads the column of prices."""

    request_id: str
    asked: tuple[str, ...]
    verdict: str
    answer: str
    options: tuple[ShownOption, ...]
    gates: tuple[ShownGate, ...]
    span: str
    in_time: str = "in time?"  # heads the column that says whether it comes in time
    fix: str | None = None
    stopped: str | None = None  # the gates that stop it, by name
    judged: str | None = None  # which of the profile's runs count, where not all do
    booked: tuple[StateHours, ...] = ()  # and where the time of those went


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
        went="Where the time of the evaluated runs went" if judged else f"Where {_hours(profile)} of {runs} went",
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
    answer = f"{useful}% of this GPU time was useful"
    if not profile.measured_ratio:
        return "None of this GPU time was measured: what of it was useful or avoidable is not known."
    if avoidable is None:
        whole = profile.measured_ratio == 1
        return f"{answer}; nothing avoidable was found{'' if whole else ' in what of it was measured'}."
    worst = max(
        (line for line in said if line.klass == "avoidable" and line.level in ("row", "only")),
        key=lambda line: line.share,
    )
    what = f"{avoidable}% was avoidable"
    most = f", most of it {worst.label} ({worst.percent}%)" if worst.level == "row" else f": {worst.label}"
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
    team = ", ".join(map(plain, teams[:_TEAMS_SHOWN])) + more if teams else "team not known"
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


_LABEL = 12  # of the evidence
_WHAT, _TIME = 31, 8  # of the choices; what is left of a line is for what happens if it is wrong


def first_page_text(first: FirstPage, layout: TextLayout) -> str:
    """Return page one for this paper, its parts between rules."""
    rule = "-" * layout.width
    parts = (
        _asked(first, layout),
        *((_verdict(first.decided, layout), _options(first.decided, layout)) if first.decided else ()),
        _went(first, layout) if first.lines else [],
        _evidence(first, layout),
        layout.wrap(f"CAVEATS  {' '.join(first.caveats)}", "", " ") if first.caveats else [],
        _made_lines(first, layout),
    )
    return layout.page([rule, *(line for part in parts if part for line in (*part, rule))])


def _asked(first: FirstPage, layout: TextLayout) -> list[str]:
    """Return whose profile it is, and what is asked for or was measured."""
    site = layout.cut(first.site, layout.width // 2)
    title = layout.cut(first.title.replace("Capacity profile", "CAPACITY PROFILE"), layout.width - len(site) - 4)
    said = (first.whose, first.held, first.answer)
    if first.decided is not None:
        judged = (first.decided.judged,) if first.decided.judged else ()
        said = (*first.decided.asked, f"Measured: {first.whose}; {first.held}.", *judged)
    return [*layout.ends(title, site), *(line for text in said for line in layout.wrap(text, ""))]


def _verdict(decided: DecisionView, layout: TextLayout) -> list[str]:
    said = (decided.answer, decided.stopped or "")
    head = layout.wrap(f"VERDICT: {decided.verdict}", "")
    return [*head, *(line for text in said for line in layout.wrap(text, ""))]


def _options(decided: DecisionView, layout: TextLayout) -> list[str]:
    if not decided.options:
        return []
    room = _WHAT + min(0, layout.extra)

    def name(option: ShownOption) -> str:
        return f"{option.what}{' (advised)' if option.advised else ''}"

    def is_long(option: ShownOption) -> bool:
        return len(name(option)) >= room

    columns = (
        TableColumn[ShownOption](
            "WHAT CAN BE DECIDED", lambda option: "" if is_long(option) else name(option), width=room, align="<"
        ),
        TableColumn[ShownOption]("GPUs", lambda option: option.gpus, width=5),
        TableColumn[ShownOption]("to buy", lambda option: option.to_buy, width=7),
        TableColumn[ShownOption](decided.span, lambda option: option.price, width=13),
        TableColumn[ShownOption](
            layout.cut(decided.in_time, _TIME - 1), lambda option: option.in_time, width=_TIME, align="<", gap=1
        ),
        TableColumn[ShownOption]("if wrong", lambda option: option.if_wrong, align="<"),
    )
    lines = paper_lines(columns, ())
    for option in decided.options:  # a name that is too long for its column stands above its figures
        lines += layout.wrap(name(option), " ", "   ") if is_long(option) else []
        lines += paper_lines(columns, [option], " ", layout)[1:]
    return [*lines, *(layout.wrap(decided.fix, "") if decided.fix else ())]


def _went(first: FirstPage, layout: TextLayout) -> list[str]:
    """Return where the time went; on narrow paper its title has a line of its own."""
    title = first.went.upper()
    table = went(title, first.lines, layout, first.sign)
    return table if len(table[0]) <= layout.width else [title, *went("", first.lines, layout, first.sign)]


def _evidence(first: FirstPage, layout: TextLayout) -> list[str]:
    of_all = " (of all runs of the profile)" if first.decided is not None and first.decided.booked else ""
    rows = (layout.labelled(label, text, _LABEL + 2) for label, text in first.evidence)
    return [f"EVIDENCE{of_all}", *(line for row in rows for line in row)]


def _made_lines(first: FirstPage, layout: TextLayout) -> list[str]:
    return [
        *layout.wrap(f"{first.made}; {first.key}", ""),
        *layout.wrap(f"sha256 {first.sha256}", ""),
        *layout.wrap("check it: gpuledger capacity profile verify profile.json --keys trusted.toml", ""),
    ]
