"""The collector's commands: `gpuledger import FILES`, and `serve` for the collector alone."""

import argparse
import csv
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from collector.config import SECRETS, TABLE, CollectorConfig, load, settings
from collector.errors import ConfigError
from collector.importing.files import column_names
from collector.importing.importer import Imported, import_file
from collector.store.database import Store

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
