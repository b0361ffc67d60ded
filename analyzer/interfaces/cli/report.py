"""The commands that ask one question each: report, findings, explain, recommend, show, savings, budgets, compare."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import (
    add_ledger,
    add_paper,
    asking,
    is_ascii,
    report_of,
    request_of,
    width_of,
    write,
)
from analyzer.interfaces.cli.recording import price_micros, recording_report
from analyzer.interfaces.questions.finding_questions import COMPARE, EXPLAIN, FINDINGS, RECOMMEND, SAVINGS, SHOW
from analyzer.interfaces.questions.formatted import formatted
from analyzer.interfaces.questions.money_questions import BUDGETS
from analyzer.interfaces.questions.question import Question
from analyzer.interfaces.questions.registry import QUESTIONS
from analyzer.interfaces.text.recording_text import recording_text
from analyzer.interfaces.text.schema import schema_text
from analyzer.measures.efficiency.step_log import by_log, step_pattern
from analyzer.measures.efficiency.steps import StepTime
from analyzer.reports.compare import checked_kind
from analyzer.text.as_json import as_json
from analyzer.text.layout import TextLayout

_OK, _CHECK_FAILED = 0, 1
_REPORTS = tuple(question for question in QUESTIONS.values() if question.is_report)
_RECORDED = ".json"  # what gpuledger run calls its recordings


def report(argv: list[str]) -> int:
    """Where GPU time and money went: of a week, a run, or a recording that gpuledger run made; and who moved what."""
    parser = argparse.ArgumentParser(prog="gpuledger report", description=report.__doc__)
    kinds = parser.add_subparsers(dest="what", required=True, metavar="KIND")
    for question in _REPORTS:
        _add(_kind(kinds.add_parser, question.name, question.about), question)
    recording = _kind(kinds.add_parser, "recording", "a recording of one command, without any store")
    recording.add_argument("file", type=Path, metavar="FILE")
    recording.add_argument("--price", metavar="P", help="dollars per GPU-hour; none is guessed")
    recording.add_argument("--against", type=Path, metavar="FILE", help="compare with an earlier recording")
    add_paper(recording)
    options = parser.parse_args(argv)
    if options.what == "recording":
        return _recording(options)
    if options.what != "run" and options.period is not None:
        if options.since or options.until:
            raise ConfigError("say either a period or --since and --until, not both")
        options.since = options.period
    if options.what == "week" and (options.mail or options.dry_run):
        return _mail(options)
    (question,) = (each for each in _REPORTS if each.name == options.what)
    return _ask(question, options, _step_log(options) if options.what == "run" else None)


def _mail(options: argparse.Namespace) -> int:
    from analyzer.interfaces.mail.cli import mail_week

    if not options.mail:
        raise ConfigError("--dry-run is of --mail: gpuledger report week --mail --dry-run --out DIR")
    if part := request_of("week", options).part:
        raise ConfigError(
            f"--mail sends what [mail] of the settings says, and not{part.options}: teams have addresses there"
        )
    return mail_week(options)


def recommend(argv: list[str]) -> int:
    """Print what is recommended, or the schema of it."""
    options = _parser(RECOMMEND, "recommend").parse_args(argv)
    if options.schema:
        write(schema_text(), options)
        return _OK
    return _ask(RECOMMEND, options)


def compare(argv: list[str]) -> int:
    """Two runs, two recordings, or the runs of a name before and after a date, side by side."""
    parser = argparse.ArgumentParser(prog="gpuledger compare", description=compare.__doc__)
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
    return _ask(COMPARE, options)


def _recordings(first: Path, second: Path, options: argparse.Namespace) -> int:
    before, now = (recording_report(file, price_micros(options.price)) for file in (first, second))
    if options.format == "json":
        write(as_json("compare_recordings", {"before": before, "after": now}), options)
        return _OK
    text = recording_text(now, TextLayout(width_of(options.width), is_ascii(options)), before)
    write(formatted(text, options.format, f"{first.name} and {second.name}"), options)
    return _OK


def _command(question: Question[Any], name: str | None = None) -> Callable[[list[str]], int]:
    """Return the command that asks a question, and no more."""

    def command(argv: list[str]) -> int:
        return _ask(question, _parser(question, name or question.name).parse_args(argv))

    return command


findings, explain, show = _command(FINDINGS), _command(EXPLAIN), _command(SHOW)
findings_explain = _command(EXPLAIN, "findings explain")
savings, budgets = _command(SAVINGS), _command(BUDGETS)


def _parser(question: Question[Any], name: str) -> argparse.ArgumentParser:
    return _add(argparse.ArgumentParser(prog=f"gpuledger {name}", description=question.about), question)


def _add(parser: argparse.ArgumentParser, question: Question[Any]) -> argparse.ArgumentParser:
    for add in question.arguments:
        add(parser)
    add_paper(parser, *question.forms)
    add_ledger(parser, spans=question.is_dated)
    return parser


def _kind(add: Callable[..., argparse.ArgumentParser], name: str, about: str) -> argparse.ArgumentParser:
    return add(name, help=about, description=f"{about[0].upper()}{about[1:]}.")


def _step_log(options: argparse.Namespace) -> StepTime | None:
    if options.steps_from is None and options.log is None:
        return None
    if options.steps_from is None or options.log is None:
        raise ConfigError("--steps-from says what to look for and --log where: give both")
    if options.server:
        raise ConfigError("--log is read on this machine, and --server answers there: use --store, or leave --log out")
    return by_log(options.log, step_pattern(options.steps_from))


def _ask(question: Question[Any], options: argparse.Namespace, step_log: StepTime | None = None) -> int:
    """Write the answer; where --check is given, return 1 with what there is to be alarmed about."""
    request = request_of(question.name, options)
    with asking(options, step_log) as ask:
        write(ask(request), options)
        if question.check is None or not options.check:
            return _OK
        alarms = question.check.alarms(report_of(ask, request))
    print(question.check.words(alarms), file=sys.stderr)
    return _CHECK_FAILED if alarms else _OK


def _recording(options: argparse.Namespace) -> int:
    price = price_micros(options.price)
    now = recording_report(options.file, price)
    before = recording_report(options.against, price) if options.against else None
    if options.format == "json":
        write(as_json("recording", now), options)
        return _OK
    text = recording_text(now, TextLayout(width_of(options.width), is_ascii(options)), before)
    write(formatted(text, options.format, now.header.command), options)
    return _OK
