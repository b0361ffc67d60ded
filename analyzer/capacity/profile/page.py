"""A profile as one self-contained page: page one for who decides, the figures after it, and the signed JSON within.

`page(envelope, decided)` is the seam to the gates: with what they decided page one begins with the request, the verdict
and the options; without it, with what was measured.
"""

from typing import TYPE_CHECKING

from analyzer.capacity.profile.details import tables
from analyzer.capacity.profile.evidence import days_words, evidence, ratio
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.read import EMBEDDED, EMBEDDED_END, PAGE_MARK, PAGE_MARK_END
from analyzer.capacity.profile.shapes import ROW, WIDTH, curve, parts, spreads
from analyzer.capacity.profile.signature import Envelope, digest, signed_text
from analyzer.capacity.profile.spelling import canonical
from analyzer.capacity.profile.spent import breakdown_of
from analyzer.period import local
from analyzer.report.table import Line, lines
from analyzer.report.templating import environment
from analyzer.report.words import (
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

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from analyzer.capacity.profile.shown import Shown

TEAMS_SHOWN = 3
TEMPLATE = "profile.html"
HEAD, BODY_END = "<head>", "</body>"  # names are escaped: only the template can have written these


def page(envelope: Envelope, decided: "Shown | None" = None, key: "Ed25519PrivateKey | None" = None) -> str:
    """Return the page. `key` is that of the envelope, and signs the words of the page; None leaves them unsigned."""
    html = environment().get_template(TEMPLATE).render(view(envelope, decided))
    mark = f"{PAGE_MARK}{PAGE_MARK_END}"
    before, head, after = html.partition(HEAD)
    html = f"{before}{head}\n{mark}{after}"
    body, end, rest = html.rpartition(BODY_END)
    html = f"{body}{EMBEDDED}{canonical(envelope)}{EMBEDDED_END}\n{end}{rest}"
    if key is None:
        return html
    return html.replace(mark, f"{PAGE_MARK}{signed_text(html, key)}{PAGE_MARK_END}", 1)


def view(envelope: Envelope, decided: "Shown | None" = None) -> dict[str, object]:
    """Return everything that the template prints, rounded and in words."""
    profile = envelope.profile
    judged = decided.booked if decided else ()
    breakdown = breakdown_of(judged or profile.booked)
    said = lines(breakdown) if breakdown.entries else ()
    bars = spreads(profile)
    return {
        "title": f"Capacity profile{f' {plain(decided.request_id)}' if decided else ''}",
        "site": _site(profile),
        "whose": _whose(profile),
        "held": _held(profile),
        "decided": decided,
        "answer": plain_answer(profile, said),
        "lines": said,
        "went": "Where the time of the judged runs went" if judged else "Where it went",
        "sign": symbol(profile.currency).strip(),
        "parts": parts(said),
        "evidence": evidence(profile),
        "caveats": [plain(text) for text in profile.caveats],
        "tables": tables(profile),
        "spreads": bars,
        "spreads_height": ROW * (len(bars) + 1) + 8,
        "curve": curve(profile),
        "width": WIDTH,
        "made": _made(profile),
        "key": _key(envelope),
        "sha256": digest(profile),
    }


def plain_answer(profile: CapacityProfile, said: "tuple[Line, ...]") -> str:
    """Return what was measured in a sentence or two, as page one's table rounds it."""
    shares = {line.klass: line.percent for line in said if line.level in ("class", "only")}
    useful, avoidable = shares.get("useful", "0.0"), shares.get("avoidable")
    answer = f"{useful}{NO_BREAK}% of this GPU time was useful"
    if avoidable is None:
        return f"{answer}; nothing avoidable was found."
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
    more = f" and {len(teams) - TEAMS_SHOWN} more" if len(teams) > TEAMS_SHOWN else ""
    team = ", ".join(map(plain, teams[:TEAMS_SHOWN])) + more if teams else "no team known"
    project = f", project {plain(profile.project)}" if profile.project else ""
    days = days_words(profile.since_us, profile.until_us, profile.timezone)
    year = local(profile.until_us - 1, profile.timezone).year
    return f"{team}{project}; {days} {year}, {profile.timezone}"


def _held(profile: CapacityProfile) -> str:
    hours = gpu_hours(profile.milliseconds, hours_decimals(profile.milliseconds))
    cost = f" = {money(profile.micros, profile.currency, money_decimals(profile.micros))}" if profile.micros else ""
    return (
        f"{counted(len(profile.runs), 'run')}, {hours} GPU-hours{cost}; {ratio(profile.measured_ratio)} of it measured"
    )


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
