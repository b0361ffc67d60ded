"""The commands that import: `gpuledger import FILES`, and `import slurm`, without anything installed on its hosts.

And the flags of the settings, with which `serve` starts too.
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from collector.config import SECRETS, TABLE, CollectorConfig, load, settings
from collector.errors import ConfigError
from collector.importing.files import column_names
from collector.importing.history import Brought, bring
from collector.importing.importer import Imported, import_file
from collector.importing.placing import Ground
from collector.importing.slurm_history import SlurmAnswer, clusters, from_commands, from_files, history, of_cluster
from collector.importing.span import Span, span, zone
from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
from collector.store.database import NO_LAKE, Store, lake_of

_OK, _CHECK_FAILED = 0, 1
_SHOWN_REJECTS = 5


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config and one flag a setting."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"settings in TOML, table [{TABLE}]")
    for name, (default, about) in settings().items():
        flag = "--" + name.replace("_", "-")
        text = argparse.SUPPRESS if name in SECRETS else f"{about} {_default(default)}".rstrip()
        parser.add_argument(flag, dest=name, metavar="VALUE", help=text)


def _default(default: str) -> str:
    return f"(default: {default})" if default else ""


def config_of(options: argparse.Namespace) -> CollectorConfig:
    """Return the settings from the file, the environment and the flags that `add_settings` added.

    Raises:
        ConfigError: one of them is wrong.
    """
    return load(options.config, os.environ, {name: getattr(options, name) for name in settings()})


def import_(argv: list[str]) -> int:
    """Bring telemetry from Parquet, CSV or Arrow files; what is missing stays unknown, the same file counts once."""
    options = _import_parser().parse_args(argv)
    if options.dry_run:
        results = [import_file(None, path, options.table, options.node) for path in options.files]
        _report(results, options.reject, dry_run=True)
        return _CHECK_FAILED if any(result.rejected for result in results) else _OK
    store_path = Path(options.store) if options.store else load(options.config, os.environ).store
    for path in options.files:
        column_names(path)  # a mistyped name should not leave a store behind
    results = []
    with Store.open(store_path) as store:
        try:
            for path in options.files:
                results.append(import_file(store, path, options.table, options.node))
        finally:  # what landed before a file was refused is told all the same
            _report(results, options.reject, dry_run=False)
    return _CHECK_FAILED if any(result.rejected and not result.landed for result in results) else _OK


def _import_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger import",
        description=import_.__doc__,
        epilog="Times are microseconds UTC or ISO 8601, UTC where no zone is given; units as in docs/metrics.md.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".csv, .csv.gz, .parquet or .arrow")
    parser.add_argument("--store", help="the store to land them in (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, for the store's path")
    parser.add_argument("--table", help="the table they are (default: by the file's name, then by its columns)")
    parser.add_argument("--node", help="the host they are of, where they have no column node")
    parser.add_argument("--dry-run", action="store_true", help="read and check, write nothing; exit 1 if rows are bad")
    parser.add_argument("--reject", type=Path, metavar="OUT", help="write the rows that are not taken to this CSV file")
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
        return f"{result.path} -> {result.table}: was imported before; nothing added"
    landed = f"{result.landed:,} {'good' if dry_run else 'landed'}"
    counts = f"{result.read:,} rows read, {landed}, {result.rejected:,} rejected"
    return f"{result.path} -> {result.table}: {counts}{_span(result)}"


def _span(result: Imported) -> str:
    if result.first is None:
        return ""
    until = _time(result.last) if result.last is not None else "now"
    return f", {_time(result.first)} to {until} UTC"


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _remarks(result: Imported, reject: Path | None) -> list[str]:
    lines = [f"line {bad.line}: {bad.reason}" for bad in result.rejects[:_SHOWN_REJECTS]]
    if result.rejected > len(lines):
        lines.append(f"and {result.rejected - len(lines):,} more{'' if reject else '; --reject FILE writes them out'}")
    if result.rejected:
        lines.append("to bring them too, mend them in a file of their own: the others are already counted")
    if result.ignored_columns:
        lines.append(f"columns that the table does not have were left out: {', '.join(result.ignored_columns)}")
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
    ("seen", "the samples leave no other"),
    ("assumed", "assumed: the first that were free"),
)


def import_slurm(argv: list[str]) -> int:
    """Bring who held which GPUs from Slurm's accounting: with telemetry of the same time, that is a ledger."""
    options = _parser().parse_args(argv)
    config = load(options.config, os.environ)
    asked = span(options.since, options.until, time.time_ns() // 1000, zone(options.timezone or "UTC"))
    told, cluster, notes = slurm_told(options, asked)
    with open_target(config, options.store, dry_run=options.dry_run) as store:
        with store.session() as session:
            found = history(session, told, cluster, asked.since, asked.until)
        brought = bring(store, found, write=not options.dry_run)
    for line in (*_history_summary(brought, asked), *(f"  {note}" for note in (*notes, *found.notes))):
        print(line)
    return _OK


def add_slurm(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the flags that say where Slurm's word is found; `import prometheus --allocations slurm` has them too."""
    parser.add_argument("--cluster", help="what the cluster is called here (default: as Slurm calls it)")
    parser.add_argument("--slurm-cluster", metavar="NAME", help="another cluster of the same accounting database")
    parser.add_argument(
        "--file",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="what sacct, squeue or sacctmgr printed elsewhere, instead of asking them; may be given several times",
    )
    parser.add_argument("--slurm-format", choices=["text", "json"], default="text", help="how sacct is asked")
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
        config = load(options.config, os.environ)
        commands = Commands(options.slurm_commands or _directory(config.slurm_commands), 600.0, config.slurm_bytes)
        reader = SlurmReader(commands, cast("Form", options.slurm_format))
        told, notes = from_commands(reader, asked.since, asked.until, options.slurm_cluster)
    names = clusters(told)
    return told, options.cluster or options.slurm_cluster or (names[0] if names else "cluster"), notes


def _history_summary(brought: Brought, asked: Span) -> list[str]:
    """Return what was brought, as lines."""
    new = brought.new
    lines = [
        f"{brought.history.name}: {_counted(len(brought.runs), 'run')} with GPUs in {asked.label}; "
        f"new: {_counted(new['allocations'], 'allocation')}, {_counted(new['run_aliases'], 'other name')}, "
        f"{_counted(new['node_states'], 'state')} of hosts"
    ]
    total = sum(brought.grounds.values())
    for ground, words in _GROUNDS:
        if milliseconds := brought.grounds.get(ground, 0):
            lines.append(f"  {milliseconds / 3.6e6:12,.1f} GPU-hours  {100 * milliseconds / total:5.1f}%  {words}")
    lines += [f"  {_counted(count, 'run')} {reason}" for reason, count in brought.unplaced.items()]
    if brought.implausible:
        lines.append(f"  {_counted(brought.implausible, 'row')} that cannot be true: left out")
    return lines


@contextmanager
def open_target(config: CollectorConfig, path: Path | None, *, dry_run: bool) -> Iterator[Store]:
    """Open the store to be brought to; for a dry run read it only, and where there is none take an empty one in memory.

    Raises:
        StoreError: it cannot be opened, or its lake not be reached.
    """
    place = path or config.store
    lake = None if config.lake in ("", NO_LAKE) else lake_of(config)  # the one beside the store is found by itself
    is_absent = dry_run and lake is None and not place.exists()
    with Store.open(None) if is_absent else Store.open(place, lake=lake, read_only=dry_run) as store:
        yield store


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger import slurm",
        description=import_slurm.__doc__,
        epilog="Brought twice, it counts once; what ended meanwhile gets its end. See docs/import-slurm.md.",
    )
    parser.add_argument("--since", default="4w", metavar="TIME", help="4w, 30d, 12h, 2026-11-01 (default: 4w)")
    parser.add_argument("--until", metavar="TIME", help="how things were then (default: now)")
    add_slurm(parser)
    parser.add_argument(
        "--timezone", default="", metavar="ZONE", help="of times without one (default: UTC; files need it)"
    )
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, for the store's path")
    parser.add_argument("--dry-run", action="store_true", help="ask and place, write nothing")
    return parser


def _chosen(wanted: str | None, names: Sequence[str]) -> str:
    if wanted is None:
        raise ConfigError(f"the files tell of {', '.join(names)}: choose one with --slurm-cluster")
    if names and wanted not in names:
        raise ConfigError(f"the files tell of {', '.join(names)}, and not of {wanted}")
    return wanted


def _directory(name: str) -> Path | None:
    return Path(name) if name else None


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
