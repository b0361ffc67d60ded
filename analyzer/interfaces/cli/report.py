"""The reading commands: report, findings, explain, recommend, show, savings and compare."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from analyzer.errors import ConfigError
from analyzer.finops.budgets.book import refuse_unbound
from analyzer.finops.budgets.text import over_check
from analyzer.interfaces.cli.command import (
    add_ledger,
    add_paper,
    add_part,
    ask,
    is_ascii,
    opened,
    part_of,
    width_of,
    write,
)
from analyzer.interfaces.cli.recording import price_micros, recording_report
from analyzer.interfaces.questions.answer import answer
from analyzer.interfaces.questions.economics import budgets_of
from analyzer.interfaces.questions.formatted import formatted
from analyzer.interfaces.text.finding_text import check_words
from analyzer.interfaces.text.recording_text import recording_text
from analyzer.interfaces.text.schema import schema_text
from analyzer.measures.efficiency.step_log import by_log, step_pattern
from analyzer.measures.efficiency.steps import StepTime
from analyzer.reports.compare import checked_kind
from analyzer.reports.groups import By
from analyzer.reports.part_reader import of_request
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request, What
from analyzer.text.as_json import as_json
from analyzer.text.paper import Paper

_OK, _CHECK_FAILED = 0, 1
_OF_MONEY = {
    "month": "a calendar month: the bill, how the fleet stands against targets, budgets (2026-11)",
    "units": "what a thousand requests, a billion tokens or a whole run cost, and when that changed",
    "anomalies": "which prices and which teams' hours were out of the ordinary, and which runs made them so",
    "demand": "what is asked for, what will be, and the mix of buying that would cost least",
    "portfolio": "which workloads earn their GPUs, want a fix or a smaller place, or are needed by nobody",
}
_RECORDED = ".json"  # what gpuledger run calls its recordings


def report(argv: list[str]) -> int:
    """Where GPU time and money went: of a week, a run, or a recording that gpuledger run made; and who moved what."""
    parser = _parser("report", report.__doc__)
    kinds = parser.add_subparsers(dest="what", required=True, metavar="KIND")
    week = _kind(kinds.add_parser, "week", "a week or another period; without a name, the last complete week")
    run = _kind(
        kinds.add_parser, "run", "one run, ended or still running: why it was slow, what it cost, what to change"
    )
    traffic = _kind(
        kinds.add_parser, "traffic", "who moved how much how far: the whole fleet's runs in a period, or one team's"
    )
    traffic.add_argument("--team", dest="subject", metavar="NAME", help="of this team's runs alone")
    week.add_argument(
        "--mail", action="store_true", help="send it as the weekly e-mail, once to each address of [mail]"
    )
    week.add_argument("--dry-run", action="store_true", help="with --mail: write .eml files into --out DIR, send none")
    money = [_kind(kinds.add_parser, name, about) for name, about in _OF_MONEY.items()]
    for kind in (week, traffic, *money):
        kind.add_argument("period", nargs="?", metavar="PERIOD", help="2026-W46, 7d, monday, 2026-11-09, …")
    run.add_argument("subject", metavar="RUN", help="a run's id, any unique end of it, its name, or last")
    run.add_argument("--traffic", action="store_true", help="who sent how much to whom, host by host or rack by rack")
    run.add_argument(
        "--steps-from", metavar="RE", help="a step's line in --log; its groups: step, and seconds (of it) or time"
    )
    run.add_argument("--log", type=Path, metavar="FILE", help="what the run printed, to read its step time from")
    for kind in (week, money[0]):
        kind.add_argument(
            "--by", choices=get_args(By), default=None, help="what the second table is by (default: team)"
        )
    add_part(week)
    recording = _kind(kinds.add_parser, "recording", "a recording of one command, without any store")
    recording.add_argument("file", type=Path, metavar="FILE")
    recording.add_argument("--price", metavar="P", help="dollars per GPU-hour; none is guessed")
    recording.add_argument("--against", type=Path, metavar="FILE", help="compare with an earlier recording")
    for kind in (week, run, traffic, recording, *money):
        add_paper(kind)
    for kind in (week, run, traffic, *money):
        add_ledger(kind)
    options = parser.parse_args(argv)
    if options.what == "recording":
        return _recording(options)
    if options.what != "run" and options.period is not None:
        if options.since or options.until:
            raise ConfigError("say either a period or --since and --until, not both")
        options.since = options.period
    if options.what == "week" and (options.mail or options.dry_run):
        return _mail(options)
    return _read(options.what, options, _step_log(options) if options.what == "run" else None)


def _mail(options: argparse.Namespace) -> int:
    from analyzer.interfaces.mail.cli import mail_week

    if not options.mail:
        raise ConfigError("--dry-run is of --mail: gpuledger report week --mail --dry-run --out DIR")
    if part := part_of(options):
        raise ConfigError(
            f"--mail sends what [mail] of the settings says, and not{part.options}: teams have addresses there"
        )
    return mail_week(options)


def findings(argv: list[str]) -> int:
    """What was avoidable, sorted by money; no two findings claim the same GPU-second."""
    parser = _parser("findings", findings.__doc__)
    parser.add_argument("--all", action="store_true", dest="everything", help="list suspicions and muted ones too")
    parser.add_argument("--check", action="store_true", help="exit 1 where a finding is new, high and still open")
    parser.add_argument("--sure", choices=("high", "medium", "low"), help="list those of this confidence alone")
    parser.add_argument("--unjudged", action="store_true", help="list instead what could not be judged, and why")
    add_part(parser)
    add_paper(parser)
    add_ledger(parser)
    return _read("findings", parser.parse_args(argv))


def explain(argv: list[str]) -> int:
    """One finding: what was seen, why it says so, and what would prove it wrong."""
    return _one("explain", "finding", explain.__doc__, argv)


def findings_explain(argv: list[str]) -> int:
    """One finding: what was seen, why it says so, and what would prove it wrong."""
    return _one("explain", "finding", findings_explain.__doc__, argv, "findings explain")


def recommend(argv: list[str]) -> int:
    """What to move or change and what each saves a week, those that save most first.

    Nothing is changed by it: whoever may act pastes the lines that `show` prints. Savings are predictions, and findings
    share no GPU time, so that they may be added up. What a guard holds back (it does not pay, it comes too soon, it was
    rejected) or what is instead of a better one is listed by --all, with the reason.
    """
    parser = _parser("recommend", recommend.__doc__)
    parser.add_argument("--all", action="store_true", dest="everything", help="list also what is held back, and why")
    add_part(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a recommendation, and no more")
    add_paper(parser, "csv")
    add_ledger(parser)
    options = parser.parse_args(argv)
    if options.schema:
        write(schema_text(), options)
        return _OK
    return _read("recommend", options)


def show(argv: list[str]) -> int:
    """One recommendation: from where to where, why, what it saves and costs, what was checked, and the lines to paste.

    slurm and kubernetes print the lines alone, to paste or to pipe; markdown is a ticket for an issue tracker; json is
    the whole document (its schema: gpuledger recommend --schema).
    """
    return _one("show", "recommendation", show.__doc__, argv, forms=("slurm", "kubernetes"))


def savings(argv: list[str]) -> int:
    """What came of what was recommended: predicted against realised, and how good the predictions were."""
    parser = _parser("savings", savings.__doc__)
    add_paper(parser)
    add_ledger(parser, spans=False)
    return _read("savings", parser.parse_args(argv))


def budgets(argv: list[str]) -> int:
    """Who may spend how much in a month, what is spent, and where the month will end."""
    parser = _parser("budgets", budgets.__doc__)
    parser.add_argument("since", nargs="?", metavar="MONTH", help="2026-11 (default: the month of the newest hour)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit 1 where somebody is over budget, or likely to be; 2 without any budget",
    )
    add_paper(parser)
    add_ledger(parser, spans=False)
    return _read("budgets", parser.parse_args(argv))


def compare(argv: list[str]) -> int:
    """Two runs, two recordings, or the runs of a name before and after a date, side by side."""
    parser = _parser("compare", compare.__doc__)
    about = "a run's id, any unique end of it, or a file of gpuledger run; with --at the name of runs"
    parser.add_argument("subject", metavar="A", help=about)
    parser.add_argument("other", nargs="?", metavar="B", help="the other run or file; A counts as before")
    parser.add_argument("--at", metavar="WHEN", help="2026-11-12 or 2026-11-12T08:00: the runs before it, and after it")
    parser.add_argument("--price", metavar="P", help="of files: dollars per GPU-hour; none is guessed")
    add_paper(parser)
    add_ledger(parser, spans=False)
    options = parser.parse_args(argv)
    checked_kind(options.other, options.at)
    files = [Path(each) for each in (options.subject, options.other) if each and Path(each).is_file()]
    if len(files) == 2:
        return _recordings(files[0], files[1], options)
    meant = [each for each in (options.subject, options.other) if each and each.endswith(_RECORDED)]
    if files or meant:
        absent = next(each for each in (options.subject, options.other or "") if not Path(each).is_file())
        raise ConfigError(f"{absent or 'the second'} is no file: compare two recordings, or two runs of the ledger")
    if options.price is not None:
        raise ConfigError("--price is of recordings: the ledger has its prices from the price file")
    return _read("compare", options)


def _recordings(first: Path, second: Path, options: argparse.Namespace) -> int:
    before, now = (recording_report(file, price_micros(options.price)) for file in (first, second))
    if options.format == "json":
        write(as_json("compare_recordings", {"before": before, "after": now}), options)
        return _OK
    text = recording_text(now, Paper(width_of(options.width), is_ascii(options)), before)
    write(formatted(text, options.format, f"{first.name} and {second.name}"), options)
    return _OK


def _one(
    what: What, noun: str, about: str | None, argv: list[str], name: str | None = None, forms: tuple[str, ...] = ()
) -> int:
    parser = _parser(name or what, about)
    parser.add_argument("subject", metavar="ID", help=f"the {noun}'s id")
    add_paper(parser, *forms)
    add_ledger(parser)
    return _read(what, parser.parse_args(argv))


def _kind(add: Callable[..., argparse.ArgumentParser], name: str, about: str) -> argparse.ArgumentParser:
    return add(name, help=about, description=f"{about[0].upper()}{about[1:]}.")


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"gpuledger {name}", description=about)


def _step_log(options: argparse.Namespace) -> StepTime | None:
    if options.steps_from is None and options.log is None:
        return None
    if options.steps_from is None or options.log is None:
        raise ConfigError("--steps-from says what to look for and --log where: give both")
    if options.server:
        raise ConfigError("--log is read on this machine, and --server answers there: use --store, or leave --log out")
    return by_log(options.log, step_pattern(options.steps_from))


def _read(what: What, options: argparse.Namespace, step_log: StepTime | None = None) -> int:
    request = Request(
        what,
        getattr(options, "subject", None),
        getattr(options, "since", None),
        getattr(options, "until", None),
        options.format,
        width_of(options.width),
        is_ascii(options),
        options.top,
        getattr(options, "everything", False),
        getattr(options, "traffic", False),
        getattr(options, "sure", None),
        getattr(options, "unjudged", False),
        getattr(options, "other", None),
        getattr(options, "at", None),
        by=getattr(options, "by", None),
    ).of_part(part_of(options))
    check = getattr(options, "check", False)
    if options.server:
        write(ask(options.server, request), options)
        return _checked(what, _told(options.server, request)) if check else _OK
    with opened(options, step_log) as whole, of_request(whole, request) as reader:
        write(answer(reader, request), options)
        return _checked(what, _alarms(reader, request)) if check else _OK


def _alarms(reader: Reader, request: Request) -> Sequence[str]:
    if request.what == "budgets":
        month = budgets_of(reader, request.since)
        refuse_unbound(month.period.label, month.currency, [line.budget for line in month.every])
        return month.over
    return reader.list_findings(reader.period(request.since, request.until)).alarming


def _told(server: str, request: Request) -> list[str]:
    """Ask what there is to be alarmed about, by the names that the documents give it."""
    report = json.loads(ask(server, replace(request, format="json", top=None)))["report"]
    if request.what != "budgets":
        return list(report["alarming"])
    every = (*report["lines"], *report["projects"], report["fleet"])
    refuse_unbound(report["period"]["label"], report["currency"], [line["budget"] for line in every])
    return list(report["over"])


def _checked(what: What, alarms: Sequence[str]) -> int:
    print(over_check(alarms) if what == "budgets" else check_words(alarms), file=sys.stderr)
    return _CHECK_FAILED if alarms else _OK


def _recording(options: argparse.Namespace) -> int:
    price = price_micros(options.price)
    now = recording_report(options.file, price)
    before = recording_report(options.against, price) if options.against else None
    if options.format == "json":
        write(as_json("recording", now), options)
        return _OK
    text = recording_text(now, Paper(width_of(options.width), is_ascii(options)), before)
    write(formatted(text, options.format, now.header.command), options)
    return _OK
