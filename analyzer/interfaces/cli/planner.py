"""gpuledger capacity plan: where and when each task of a file, or of a description, runs, and when all is done."""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.amounts import parse_moment
from analyzer.capacity.planner.facts import PlanFacts
from analyzer.capacity.planner.from_ledger import LookedUp
from analyzer.capacity.planner.from_text import DESCRIPTION_BYTES, ModelSettings, heading, read_draft, to_confirm
from analyzer.capacity.planner.plan import SOLVERS
from analyzer.capacity.planner.task_file import TaskFile, read_tasks
from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import add_paper, add_place, is_ascii, opened, width_of, write
from analyzer.settings.settings import Settings

_OK, _MISSED = 0, 1
_STANDARD_INPUT = "-"
_TASKS = "tasks.yaml"
_YES = ("y", "yes")


def plan(argv: list[str]) -> int:
    """Say where and when each task of a file runs, when all is done, and how likely that is in time.

    The file names tasks, nodes and what moves between them (docs/planning.md). Durations and nodes may come from the
    ledger. Nothing is started or moved: it is an answer.
    """
    options = _options(argv)
    settings = _settings(options)
    if options.from_text is not None and not _confirmed(options, settings):
        return _OK
    file = _read(options, settings)
    facts = _answered(_looked_up(options, file), options, settings)
    write(_written(facts, options), options)
    missed = facts.verdict in ("impossible", "not_found")
    return _MISSED if options.check and missed else _OK


def _options(argv: list[str]) -> argparse.Namespace:
    from analyzer.capacity.planner.solve import SECONDS

    parser = argparse.ArgumentParser(prog="gpuledger capacity plan", description=plan.__doc__)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="tasks and nodes in YAML; - reads them from standard input"
    )
    parser.add_argument(
        "--from-text", metavar="FILE", help="words instead (-: stdin), of which the model of [model] makes a task file"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="with --from-text: write the task file, and end")
    parser.add_argument("--finish-by", metavar="WHEN", help='"Friday 18:00", "in 20 h", 2026-11-27T18:00')
    parser.add_argument("--start", metavar="WHEN", help="before what the file says (default: now)")
    parser.add_argument(
        "--solver",
        action="append",
        choices=SOLVERS,
        metavar="NAME",
        help=f"only these: {', '.join(SOLVERS)}; repeatable",
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 where no plan keeps the deadline")
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        metavar="S",
        help=f"search for so long at most (default: {SECONDS:g})",
    )
    parser.add_argument("--top", type=int, metavar="N", help="maximum number of tasks and transfers on the terminal")
    add_paper(parser)
    add_place(parser)
    options = parser.parse_args(argv)
    if (options.file is None) == (options.from_text is None):
        parser.error("say a task file, or --from-text with a description of the tasks")
    if options.write is not None and options.from_text is None:
        parser.error("--write goes with --from-text")
    return options


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds over 0 and up to 3600")
    return seconds


def _settings(options: argparse.Namespace) -> Settings:
    from analyzer.settings.settings import Settings

    return Settings.read(_settings_file(options))


def _settings_file(options: argparse.Namespace) -> Path | None:
    from collector.config import settings_of_store

    return settings_of_store(options.store, options.config, os.environ)[1]


def _confirmed(options: argparse.Namespace, settings: Settings) -> bool:
    """Let a model make a task file of a description; return whether a person has confirmed it, to be read next."""
    from analyzer.settings.settings import TABLES

    model = ModelSettings.read(_settings_file(options), TABLES)
    options.file = from_text(options.from_text, options.write, model, settings.timezone)
    return options.file is not None


def _read(options: argparse.Namespace, settings: Settings) -> TaskFile:
    now = time.time_ns() // 1000
    name = "standard input" if options.file == _STANDARD_INPUT else options.file
    file = read_tasks(_text(options.file), now, settings.timezone, name, options.start)
    if options.finish_by is None:
        return file
    due = parse_moment("--finish-by", options.finish_by, file.starts_at, settings.timezone)
    if due <= file.starts_at:
        raise ConfigError(f"--finish-by {options.finish_by} is not after the plan's start; say a later moment")
    return replace(file, deadline_seconds=(due - file.starts_at) // SECOND_US)


def _text(name: str) -> str:
    if name == _STANDARD_INPUT:
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read {name}: {why}") from error


def _looked_up(options: argparse.Namespace, file: TaskFile) -> LookedUp:
    from analyzer.capacity.planner.from_ledger import LookedUp, asks_ledger, look_up
    from analyzer.capacity.planner.ledger import ServerLedger, StoreLedger

    if not asks_ledger(file):
        return LookedUp(file)
    if options.server:
        return look_up(ServerLedger(options.server), file)
    with opened(options) as reader:
        return look_up(StoreLedger(reader.session), file)


def _answered(looked: LookedUp, options: argparse.Namespace, settings: Settings) -> PlanFacts:
    from analyzer.capacity.planner.facts import PlanContext, plan_facts
    from analyzer.capacity.planner.simulation import links_cost_seconds, simulate
    from analyzer.capacity.planner.solve import solve

    answer = solve(looked.file.problem(), options.seconds, solvers=options.solver or SOLVERS)
    outlook = simulate(answer.problem, answer.plan, samples=looked.samples(answer.problem, answer.plan))
    links = links_cost_seconds(answer.problem, answer.plan)
    title = "of standard input" if options.file == _STANDARD_INPUT else Path(options.file).name
    told = PlanContext(title, settings.timezone, settings.currency, links, looked.histories, looked.left_out)
    return plan_facts(answer, outlook, told)


def _written(facts: PlanFacts, options: argparse.Namespace) -> str:
    from analyzer.capacity.planner.text import plan_html, plan_json, plan_text
    from analyzer.interfaces.questions.question import formatted
    from analyzer.text.layout import TextLayout

    if options.format == "json":
        return plan_json(facts)
    if options.format == "html":
        return plan_html(facts)
    text = plan_text(facts, TextLayout(width_of(options.width), is_ascii(options)), options.top)
    return formatted(text, options.format, facts.title)


def from_text(source: str, target: Path | None, model: ModelSettings, timezone: str) -> Path | None:
    """Show what a model understood of a description, and return the task file that a person has confirmed.

    None: nobody was asked, or the answer was no. Without a terminal nobody can confirm: the task file is written where
    `target` says, or shown, and solved by the next command.

    Raises:
        ConfigError: no model is set, the description cannot be read, or a file is in the way.
        ModelError: the model has made no task file of it.
    """
    model.ready()
    if target is not None:
        _free(target)
    now = time.time_ns() // 1000
    found = read_draft(model, _description(source), now, timezone)
    text = to_confirm(found, now, timezone)
    sys.stderr.write(f"{heading(found)}\n\n")
    if target is not None:
        _write(target, text)
        sys.stderr.write(f"It is in {target}; when every line is right: gpuledger capacity plan {target}\n")
        return None
    sys.stdout.write(text)
    sys.stdout.flush()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write(
            "\nTo plan it: keep it with --write tasks.yaml, read it, and run gpuledger capacity plan tasks.yaml\n"
        )
        return None
    return _is_right(text)


def _is_right(text: str) -> Path | None:
    """Ask, and write the file where the answer is yes; anything else is no."""
    path = Path(_TASKS)
    _free(path)
    sys.stderr.write(f"\nIs that what you mean? It is written to {path} and solved then [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in _YES:
        sys.stderr.write("nothing was written, and nothing solved\n")
        return None
    _write(path, text)
    return path


def _description(name: str) -> str:
    try:
        if name == _STANDARD_INPUT:
            content = sys.stdin.buffer.read(DESCRIPTION_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(DESCRIPTION_BYTES + 1)
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read --from-text {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--from-text {name} is not UTF-8 text") from error


def _free(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already; name another file, or move it away")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
