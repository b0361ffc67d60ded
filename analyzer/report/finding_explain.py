"""One finding as text, with everything that argues for and against it, and the way to say that it is wrong."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzer.argument.argue import Argument
from analyzer.argument.signs import Sign
from analyzer.casebook.judgement import Judgement, Mute
from analyzer.casebook.life import DAY_US, HOUR_US, Life
from analyzer.finding_needs import MODERATE_PERMILLE, SEVERE_PERMILLE, need_words
from analyzer.findings import Finding
from analyzer.period import local
from analyzer.placement.recommendation import Recommendation
from analyzer.report.as_json import plain_data
from analyzer.report.finding_plot import plot_lines
from analyzer.report.finding_told import told
from analyzer.report.paper import Paper
from analyzer.report.recommendation_text import saves_words
from analyzer.report.words import counted, day, gpu_hours, moment, money, plain, plain_sentence

COLUMN = 12
WHAT, SEEN, SAID = 25, 22, 4
RULED_OUT_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Explained:
    """One finding of a period, its argument, what is kept of it, and what would help."""

    finding: Finding
    currency: str
    timezone: str
    argument: Argument | None = None
    life: Life | None = None
    judgement: Judgement | None = None
    mute: Mute | None = None
    advice: tuple[Recommendation, ...] = field(default=())

    def data(self) -> Mapping[str, object]:
        """Return it for --json: the finding's own fields, and beside them the rest."""
        beside = {name: plain_data(getattr(self, name)) for name in ("argument", "life", "judgement", "mute")}
        told_ = {"told": told(self.finding, self.currency, self.timezone)}
        ids = {"recommendation_ids": [one.id for one in self.advice]}
        return dict(plain_data(self.finding)) | told_ | beside | ids


def explain_text(explained: Explained, paper: Paper) -> str:
    """Return the text."""
    finding, argument = explained.finding, explained.argument
    sentence = told(finding, explained.currency, explained.timezone)
    found = [*_head(explained, paper), "", *paper.wrap(plain_sentence(sentence))]
    if seen := _seen(finding, argument, paper):
        found += ["", *seen]
    if argument is not None:
        found += _need(argument, paper)
        if lines := plot_lines(argument.plot, paper, explained.timezone):
            found += ["", *lines]
        found += ["", *_ruled_out(argument, paper)]
    found += _saves(explained, paper)
    found += paper.labelled("WRONG IF", plain_sentence(finding.wrong_if), COLUMN + 2)
    found += _said(explained, paper)
    ask = f"  is this right?  gpuledger findings judge {finding.id} right | wrong | planned"
    following = f"gpuledger show {explained.advice[0].id}" if explained.advice else "gpuledger findings"
    return paper.page([*found, "", ask, f"next: {following}"])


def state_words(finding: Finding, life: Life | None, timezone: str) -> str:
    """Return "open 6 d", "closed 14 Nov" or "open again 2 d"; without a book what the period itself shows."""
    if life is None:
        return "open" if finding.still_open else "ended"
    if life.closed_at is not None:
        return f"closed {day(local(life.closed_at - 1, timezone)).split(' ', 1)[1]}"
    age = life.updated_at - life.opened_at
    lasted = f"{age // DAY_US} d" if age >= DAY_US else f"{-(-age // HOUR_US)} h"
    return f"open again {lasted}" if life.reopened else f"open {lasted}"


def rules_words(finding: Finding, argument: Argument | None) -> str:
    """Return the rule with its version, and the date of all rules and thresholds by which its hours were judged."""
    dates = sorted({version.partition("+")[0] for version in argument.rules}) if argument else []
    rule = plain(" ".join(filter(None, (finding.rule, finding.rule_version))))
    return rule + (f", rules of {', '.join(map(plain, dates))}" if dates else "")


def _head(explained: Explained, paper: Paper) -> list[str]:
    finding = explained.finding
    at_stake = "$ unknown"
    if finding.at_stake_micros is not None:
        at_stake = money(finding.at_stake_micros, explained.currency)
    confidence = f"{finding.confidence}, claims nothing" if finding.suspicion else finding.confidence
    right = f"{at_stake}  {confidence}  {state_words(finding, explained.life, explained.timezone)}"
    left = paper.cut(f"{finding.id}  {plain(finding.subject)}: {finding.what}", max(20, paper.width - 4 - len(right)))
    found = [f"{left}{right:>{max(2, paper.width - 2 - len(left))}}"]
    actor = {"run": finding.team or "the run's owner"}.get(finding.actor or "", finding.actor or "nobody")
    found += paper.wrap(f"{rules_words(finding, explained.argument)}   {plain(actor)} can act", "rule    ", " " * 8)
    span = f"{moment(finding.first_at, explained.timezone)} - {moment(finding.last_at, explained.timezone)}"
    where = f" on {counted(len(finding.hosts), 'host')}" if finding.hosts else ""
    of = f" of {counted(len(finding.run_ids), 'run')}" if finding.run_ids else ""
    found += paper.wrap(f"{span}, {gpu_hours(finding.milliseconds)} GPU-hours{of}{where}", "when    ", " " * 8)
    if explained.life is not None and explained.life.reopened:
        first = day(local(explained.life.first_at, explained.timezone))
        found += paper.wrap(f"first seen {first}, opened again {explained.life.reopened:,} times since", " " * 8)
    if finding.caused_by:
        found += paper.wrap(f"{plain(finding.caused_by)} is the root of it", "cause   ", " " * 8)
    return found


def _seen(finding: Finding, argument: Argument | None, paper: Paper) -> list[str]:
    marks = argument.signs if argument else ()
    found = []
    if marks:
        found.append(f"  {'SEEN':<{WHAT + SEEN}}NEEDED TO SAY SO")
        found += [line for sign in marks for line in _sign(sign, paper)]
    elif finding.evidence:
        found.append("  SEEN")
    for line in finding.evidence:
        seen, verdict = plain_sentence(line.seen), plain_sentence(line.verdict)
        left = f"  {paper.cut(line.what, WHAT - 1):<{WHAT}}"
        room = paper.width - 2 - len(left)
        if len(seen) + len(verdict) + 2 <= room:
            found.append(f"{left}{seen}{verdict:>{room - len(seen)}}")
        else:
            found += paper.wrap(f"{seen}  {verdict}".rstrip(), left, " " * len(left))
    return found


def _sign(sign: Sign, paper: Paper) -> list[str]:
    said = {True: "yes", False: "no", None: "-"}[sign.holds]
    left = f"  {paper.cut(sign.what, WHAT - 1):<{WHAT}}{paper.cut(sign.seen, SEEN - 1):<{SEEN}}"
    room = paper.width - 2 - len(left)
    first, *more = textwrap.wrap(sign.needed, room - SAID) or [""]
    return [f"{left}{first}{said:>{room - len(first)}}", *(f"{'':<{len(left)}}{line}" for line in more)]


def _need(argument: Argument, paper: Paper) -> list[str]:
    words = [] if argument.need is None else [need_words(argument.need)]
    if argument.severity is not None:
        bands = f"moderate from {MODERATE_PERMILLE // 10} %, severe from {SEVERE_PERMILLE // 10} % of a step"
        words.append(f"{argument.severity} ({bands})")
    return ["", *paper.labelled("NEEDS", "; ".join(words), COLUMN + 2)] if words else []


def _ruled_out(argument: Argument, paper: Paper) -> list[str]:
    if not argument.ruled_out:
        return []
    shown = [f"{one.what}: {plain_sentence(one.why)}" for one in argument.ruled_out[:RULED_OUT_SHOWN]]
    more = len(argument.ruled_out) - len(shown)
    return paper.labelled("RULED OUT", " · ".join([*shown, *([f"{more} more: --json"] if more else [])]), COLUMN + 2)


def _saves(explained: Explained, paper: Paper) -> list[str]:
    found: list[str] = []
    for one in explained.advice:
        words = f"{saves_words(one, explained.currency)}: {plain(one.title)} ({one.id})"
        found += paper.labelled("" if found else "SAVES", words, COLUMN + 2)
    return found


def _said(explained: Explained, paper: Paper) -> list[str]:
    found = []
    if (word := explained.judgement) is not None:
        when = day(local(word.recorded_at, explained.timezone))
        said = f"{word.verdict}, said {when} of {plain(word.period_label)}: {plain_sentence(word.because)}"
        found += paper.labelled("JUDGED", said, COLUMN + 2)
    if (mute := explained.mute) is not None:
        until = moment(mute.until, explained.timezone)
        found += paper.labelled("MUTED", f"until {until}: {plain_sentence(mute.because)}", COLUMN + 2)
    return found
