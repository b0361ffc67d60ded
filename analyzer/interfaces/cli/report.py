"""The commands that ask one question each: report, findings, explain, recommend, show, savings, budgets, compare."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import add_ledger, add_paper, asking, price_micros, report_of, request_of, write
from analyzer.interfaces.questions.finding_questions import COMPARE, EXPLAIN, FINDINGS, RECOMMEND, SAVINGS, SHOW
from analyzer.interfaces.questions.ledger_questions import QUOTAS, RUN, RUNS, TRAFFIC, WEEK
from analyzer.interfaces.questions.money_questions import ANOMALIES, BUDGETS, DEMAND, MONTH, PORTFOLIO, UNITS
from analyzer.interfaces.questions.question import Question
from analyzer.interfaces.text.recommendation_files import schema_text
from analyzer.measures.efficiency.steps import StepTime, by_log, step_pattern
from analyzer.reports.compare import checked_kind

_OK, _CHECK_FAILED = 0, 1
_RECORDED = ".json"  # what gpuledger run calls its recordings


def report(argv: list[str]) -> int:
    """Print where the GPU time and money of a period went; without one, of the last complete week.

    A file or folder instead of a period is a log of GPUs: what it tells, without any store.
    """
    if argv and not argv[0].startswith("-") and (set("./") & set(argv[0]) or Path(argv[0]).exists()):
        return _log(argv)
    return _report("report", argv)


def _log(argv: list[str]) -> int:
    from analyzer.interfaces.cli.recording import log_answer  # analyses, as no other report does
    from analyzer.interfaces.questions.registry import answer
    from collector.cli.imports import add_log, hints_of, start_of

    parser = argparse.ArgumentParser(prog="gpuledger report", description="A log of GPUs, without any store.")
    parser.add_argument("file", type=Path, metavar="FILE", help="a log of GPUs; see docs/import-logs.md")
    parser.add_argument("--price", metavar="P", help="dollars per GPU-hour; none is guessed")
    add_log(parser)
    add_paper(parser)
    options = parser.parse_args(argv)
    request = replace(request_of("run", options), subject=None)
    hints, price = hints_of(options), price_micros(options.price)
    log, text = log_answer(options.file, hints, options.node, start_of(options), price, request, answer)
    for sentence in log.assumed:
        print(f"taken for granted: {sentence}", file=sys.stderr)
    write(text, options)
    return _OK


def report_team(argv: list[str]) -> int:
    """Print the same of one team: NAME goes first."""
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        raise ConfigError("say which team: gpuledger report team NAME [PERIOD]")
    return _report("report team", argv if argv[0].startswith("-") else ["--team", *argv])


def _report(name: str, argv: list[str]) -> int:
    options = _parsed(WEEK, name, argv)
    if options.mail or options.dry_run:
        return _mail(options)
    return _ask(WEEK, options)


def report_run(argv: list[str]) -> int:
    """Print why one run was slow, what it cost, and what to change."""
    options = _parsed(RUN, "report run", argv)
    return _ask(RUN, options, _step_log(options))


def _mail(options: argparse.Namespace) -> int:
    from analyzer.interfaces.mail.cli import mail_week

    if not options.mail:
        raise ConfigError("--dry-run is of --mail: gpuledger report --mail --dry-run --out DIR")
    if part := request_of("week", options).part:
        raise ConfigError(
            f"--mail sends what [mail] of the settings says, and not{part.options}: teams have addresses there"
        )
    return mail_week(options)


def recommendations(argv: list[str]) -> int:
    """Print what is recommended, or the schema of it."""
    options = _parsed(RECOMMEND, "recommendations", argv)
    if options.schema:
        write(schema_text(), options)
        return _OK
    return _ask(RECOMMEND, options)


def compare(argv: list[str]) -> int:
    """Two runs, two recordings, or the runs of a name before and after a date, side by side."""
    parser = argparse.ArgumentParser(prog="gpuledger runs compare", description=compare.__doc__)
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
        from analyzer.interfaces.cli.recording import compare_recordings  # no other report needs it

        return compare_recordings(files[0], files[1], options)
    meant = [each for each in (options.subject, options.other) if each and each.endswith(_RECORDED)]
    if files or meant:
        absent = next(each for each in (options.subject, options.other or "") if not Path(each).is_file())
        raise ConfigError(f"{absent or 'the second'} is not a file: compare two recordings, or two runs of the ledger")
    if options.price is not None:
        raise ConfigError("--price is of recordings: the ledger has its prices from the price file")
    return _ask(COMPARE, options)


def _command(question: Question[Any], name: str) -> Callable[[list[str]], int]:
    """Return the command that asks a question, and no more."""

    def command(argv: list[str]) -> int:
        return _ask(question, _parsed(question, name, argv))

    return command


findings, findings_explain = _command(FINDINGS, "findings"), _command(EXPLAIN, "findings explain")
recommendations_show, savings = _command(SHOW, "recommendations show"), _command(SAVINGS, "recommendations savings")
runs, report_traffic = _command(RUNS, "runs"), _command(TRAFFIC, "report traffic")
budgets, bill_month = _command(BUDGETS, "bill budgets"), _command(MONTH, "bill month")
bill_units, bill_anomalies = _command(UNITS, "bill units"), _command(ANOMALIES, "bill anomalies")
capacity_demand, capacity_portfolio = _command(DEMAND, "capacity demand"), _command(PORTFOLIO, "capacity portfolio")
capacity_quotas = _command(QUOTAS, "capacity quotas")


def _parsed(question: Question[Any], name: str, argv: list[str]) -> argparse.Namespace:
    """Return the arguments of a question's command; a period as a word of its own is --since.

    Raises:
        ConfigError: a period is said twice.
    """
    parser = argparse.ArgumentParser(prog=f"gpuledger {name}", description=question.about)
    for add in question.arguments:
        add(parser)
    add_paper(parser, *question.forms)
    add_ledger(parser, spans=question.is_dated)
    options = parser.parse_args(argv)
    if (period := getattr(options, "period", None)) is not None:
        if options.since or options.until:
            raise ConfigError("say either a period or --since and --until, not both")
        options.since = period
    return options


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
