"""The commands that import: `gpuledger import FILES`, and `import slurm`, without anything installed on its hosts.

And the flags of the settings, with which `serve` starts too.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from collector.cli.table import table_lines, utc_text
from collector.config import SECRETS, SHARED, TABLE, CollectorConfig, settings, settings_of_store
from collector.errors import ConfigError
from collector.importing.files import column_names
from collector.importing.history import Brought, Span, bring, counted, span, zone
from collector.importing.importer import Imported, import_file
from collector.importing.log_cells import moment
from collector.importing.log_import import import_log
from collector.importing.log_names import LogHints
from collector.importing.logs import is_log, kind_names
from collector.importing.placing import Ground
from collector.importing.slurm_history import SlurmAnswer, clusters, from_commands, from_files, history, of_cluster
from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
from collector.store.database import Store, open_for_command

_OK, _CHECK_FAILED = 0, 1
_SHOWN_REJECTS = 5


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config and one flag a setting."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"settings in TOML, table [{TABLE}]")
    for name, (default, about) in settings().items():
        flag = "--" + name.replace("_", "-")
        text = f"{about} (default: {default})" if default else about
        text = argparse.SUPPRESS if name in SECRETS else text
        parser.add_argument(flag, dest=name, metavar="VALUE", help=text)


def config_of(options: argparse.Namespace) -> tuple[CollectorConfig, Path | None]:
    """Return the settings from the file, the environment and the flags that `add_settings` added; and which file.

    Raises:
        ConfigError: one of them is wrong.
    """
    return settings_of_store(None, options.config, os.environ, {name: getattr(options, name) for name in settings()})


def import_(argv: list[str]) -> int:
    """Bring telemetry: tables in Parquet, CSV or Arrow, and logs of GPUs as tools write them; each row counts once."""
    options = _import_parser().parse_args(argv)
    logs = {path for path in options.files if options.table is None and is_log(path, hints_of(options))}
    if options.dry_run:
        results = [_imported(None, path, options, is_a_log=path in logs) for path in options.files]
        _report(results, options.reject, dry_run=True)
        return _CHECK_FAILED if any(result.rejected for result in results) else _OK
    config, _ = settings_of_store(options.store, options.config, os.environ)
    for path in options.files:
        if path not in logs:
            column_names(path)  # a mistyped name should not leave a store behind
    results = []
    with _filled_store(config) as store:
        try:
            for path in options.files:
                results.append(_imported(store, path, options, is_a_log=path in logs))
        finally:  # what landed before a file was refused is told all the same
            _show_progress("")
            _report(results, options.reject, dry_run=False)
    return _CHECK_FAILED if any(result.rejected for result in results) else _OK


def _imported(store: Store | None, path: Path, options: argparse.Namespace, *, is_a_log: bool) -> Imported:
    if is_a_log:
        return import_log(store, path, hints_of(options), options.node, start_of(options))
    return import_file(store, path, options.table, options.node, partial(_show_rows, path))


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what a log of GPUs does not say itself."""
    parser.add_argument("--node", help="the host they belong to, where they name none")
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="names of a log's columns in order, as nvidia-smi has them, or a file of them",
    )
    parser.add_argument("--start", metavar="TIME", help="when a log's first row was, where it has no dates")
    parser.add_argument("--timezone", default="UTC", metavar="ZONE", help="of a log's times (default: UTC)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="between a log's rows, where it has no times")


def hints_of(options: argparse.Namespace) -> LogHints:
    """Return what was said beside a log.

    Raises:
        ConfigError: the file of --columns cannot be read.
    """
    columns: str = options.columns or ""
    if columns and "," not in columns:
        try:
            columns = Path(columns).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read --columns {columns}: {error.strerror}") from error
    names = tuple(name.strip() for name in columns.split(",")) if columns.strip() else ()
    return LogHints(names, zone(options.timezone), options.every)


def start_of(options: argparse.Namespace) -> int | None:
    """Return --start, microseconds UTC.

    Raises:
        ConfigError: it is no time.
    """
    if options.start is None:
        return None
    if (found := moment(options.start, zone(options.timezone))) is None:
        raise ConfigError(f"--start {options.start!r} is not a time; write it as 2026-11-16T08:00")
    return found


def _show_progress(text: str) -> None:
    """Show a line on a terminal's standard error, in place of the last one; elsewhere nothing."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _show_rows(path: Path, rows: int) -> None:
    _show_progress(f"{path.name}: {counted(rows, 'row')} read")


@contextmanager
def _filled_store(config: CollectorConfig) -> Iterator[Store]:
    """Open a store to import into; a file that is made for it and in which nothing lands is removed again.

    Raises:
        StoreError: it cannot be opened.
    """
    is_new = not config.store.exists()
    with open_for_command(config) as store:
        try:
            yield store
        finally:
            with store.session() as session:
                is_empty = not session.rows("SELECT 1 FROM receipts WHERE row_count > 0 LIMIT 1")
            if is_new and is_empty:
                store.close()
                config.store.unlink()


def _import_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger import",
        description=import_.__doc__,
        epilog="Times are microseconds UTC or ISO 8601, UTC where no zone is given; units as in docs/metrics.md. "
        f"Logs: {', '.join(kind_names())}; see docs/import-logs.md.",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a table, a log, or a folder that is one log"
    )
    parser.add_argument(
        "--store", type=Path, metavar="FILE", help="the store to import into (default: from the settings)"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, for the store's path")
    parser.add_argument("--table", help="the table they belong to (default: by the file's name, then by its columns)")
    add_log(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="read and check, write nothing; exit 1 if rows are invalid"
    )
    parser.add_argument("--reject", type=Path, metavar="OUT", help="write the rejected rows to this CSV file")
    return parser


def _report(results: Sequence[Imported], reject: Path | None, *, dry_run: bool) -> None:
    for result in results:
        print(_summary(result, dry_run=dry_run))
        for line in _remarks(result, reject):
            print(f"  {line}")
    if reject is not None:
        _write_rejects(results, reject)


def _summary(result: Imported, *, dry_run: bool) -> str:
    if result.repeated:
        return f"{result.path} -> {result.table}: already imported; nothing added"
    landed = f"{result.landed:,} {'valid' if dry_run else 'imported'}"
    there = f", {result.there:,} were there already" if result.there else ""
    counts = f"{result.read:,} rows read, {landed}, {result.rejected:,} rejected{there}"
    return f"{result.path} -> {result.table}: {counts}{_span(result)}"


def _span(result: Imported) -> str:
    if result.first is None:
        return ""
    until = utc_text(result.last) if result.last is not None else "now"
    return f", {utc_text(result.first)} to {until} UTC"


def _remarks(result: Imported, reject: Path | None) -> list[str]:
    lines = [*(f"taken for granted: {one}" for one in result.assumed)]
    lines += [f"line {bad.line}: {bad.reason}" for bad in result.rejects[:_SHOWN_REJECTS]]
    if len(result.rejects) > _SHOWN_REJECTS:
        more = result.rejected - _SHOWN_REJECTS
        lines.append(f"and {more:,} more{'' if reject else '; --reject FILE writes them out'}")
    if result.rejects:
        lines.append("to import them too, correct them in a file of their own: the others are already counted")
    if result.ignored_columns:
        lines.append(f"unknown columns were ignored: {', '.join(result.ignored_columns)}")
    return lines


def _write_rejects(results: Sequence[Imported], path: Path) -> None:
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["line", "reason", "raw", "file"])
            for result in results:
                writer.writerows([bad.line, bad.reason, bad.raw, result.path.name] for bad in result.rejects)
    except OSError as error:
        raise ConfigError(f"cannot write --reject {path}: {error.strerror}") from error


_GROUNDS: tuple[tuple[Ground, str], ...] = (
    ("told", "named by Slurm, an agent or an exporter"),
    ("whole", "whole hosts"),
    ("seen", "the samples allow no other"),
    ("assumed", "assumed: the first free ones"),
)


def import_slurm(argv: list[str]) -> int:
    """Bring who held which GPUs from Slurm's accounting: with telemetry of the same time, that is a ledger.

    The exit code is 1 where rows could not be read.
    """
    options = _parser().parse_args(argv)
    config, _ = settings_of_store(options.store, options.config, os.environ)
    asked = span(options.since, options.until, time.time_ns() // 1000, zone(options.timezone or "UTC"))
    told, cluster, notes = slurm_told(options, asked)
    with open_target(config, dry_run=options.dry_run) as store:
        with store.session() as session:
            found = history(session, told, cluster, asked.since, asked.until)
        brought = bring(store, found, write=not options.dry_run)
    told_of = (*told.sentences(), *notes, *found.notes)
    for line in (*_history_summary(brought, asked), *(f"  {note}" for note in told_of)):
        print(line)
    return _CHECK_FAILED if told.unread else _OK


def add_slurm(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the flags that say where Slurm's word is found; `import prometheus --allocations slurm` has them too."""
    parser.add_argument("--cluster", help="the cluster's name here (default: Slurm's)")
    parser.add_argument("--slurm-cluster", metavar="NAME", help="another cluster of the same accounting database")
    parser.add_argument(
        "--file",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="output of sacct, squeue or sacctmgr from elsewhere, instead of running them; may be repeated",
    )
    parser.add_argument(
        "--slurm-format", choices=["text", "json"], default="text", help="which output of sacct to ask for"
    )
    parser.add_argument("--slurm-commands", type=Path, metavar="DIR", help="directory of Slurm's commands")


def slurm_told(options: argparse.Namespace, asked: Span) -> tuple[SlurmAnswer, str, tuple[str, ...]]:
    """Return what Slurm says, of which cluster, and sentences about what it did not say.

    Raises:
        SchedulerError: accounting does not answer.
        FileRefusedError: a file is none of Slurm's.
        ConfigError: several clusters are told of, and none was chosen.
    """
    notes: tuple[str, ...] = ()
    if options.file:
        told = from_files(options.file, zone(options.timezone) if options.timezone else None)
        if options.slurm_cluster or len(clusters(told)) > 1:
            told = of_cluster(told, _chosen(options.slurm_cluster, clusters(told)))
    else:
        config, _ = settings_of_store(options.store, options.config, os.environ)
        directory = options.slurm_commands or (Path(config.slurm_commands) if config.slurm_commands else None)
        commands = Commands(directory, 600.0, config.slurm_bytes)
        reader = SlurmReader(commands, cast("Form", options.slurm_format))
        told, notes = from_commands(reader, asked.since, asked.until, options.slurm_cluster, _show_days)
        _show_progress("")
    names = clusters(told)
    return told, options.cluster or options.slurm_cluster or (names[0] if names else "cluster"), notes


def _show_days(done: int, days: int) -> None:
    _show_progress(f"Slurm's accounting: {done} of {counted(days, 'day')}")


def _history_summary(brought: Brought, asked: Span) -> list[str]:
    new = brought.new
    lines = [
        f"{brought.history.name}: {counted(len(brought.runs), 'run')} with GPUs in {asked.label}; "
        f"new: {counted(new['allocations'], 'allocation')}, {counted(new['run_aliases'], 'other name')}, "
        f"{counted(new['node_states'], 'state')} of hosts"
    ]
    total = sum(brought.grounds.values())
    found = [(brought.grounds[ground], words) for ground, words in _GROUNDS if brought.grounds.get(ground)]
    rows = [(f"{held / 3.6e6:,.1f} GPU-hours", f"{100 * held / total:.1f}%", words) for held, words in found]
    lines += [f"  {line}" for line in table_lines(rows, numbers=(0, 1))]
    lines += [f"  {counted(count, 'run')} {reason}" for reason, count in brought.unplaced.items()]
    if brought.implausible:
        lines.append(f"  {counted(brought.implausible, 'row')} with impossible values: left out")
    return lines


@contextmanager
def open_target(config: CollectorConfig, *, dry_run: bool) -> Iterator[Store]:
    """Open the store to be brought to; for a dry run read it only, and where there is none take an empty one in memory.

    Raises:
        StoreError: it cannot be opened, or its lake not be reached.
    """
    if dry_run and not config.store.exists() and not config.lake.startswith(SHARED):
        target: AbstractContextManager[Store] = Store.open(None)
    else:
        target = open_for_command(config, read_only=True) if dry_run else _filled_store(config)
    with target as store:
        yield store


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger import slurm",
        description=import_slurm.__doc__,
        epilog="Imported twice, it counts once; jobs that ended meanwhile get their end. See docs/import-slurm.md.",
    )
    parser.add_argument("--since", default="4w", metavar="TIME", help="4w, 30d, 12h, 2026-11-01 (default: 4w)")
    parser.add_argument("--until", metavar="TIME", help="end of the period (default: now)")
    add_slurm(parser)
    parser.add_argument(
        "--timezone", default="", metavar="ZONE", help="time zone of times without one (default: UTC; files need it)"
    )
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, for the store's path")
    parser.add_argument("--dry-run", action="store_true", help="read and assign, write nothing")
    return parser


def _chosen(wanted: str | None, names: Sequence[str]) -> str:
    if wanted is None:
        raise ConfigError(f"the files have the clusters {', '.join(names)}: choose one with --slurm-cluster")
    if names and wanted not in names:
        raise ConfigError(f"the files have the clusters {', '.join(names)}, not {wanted}")
    return wanted
