"""`gpuledger import prometheus`: last month's ledger from what a site already stores; nothing is installed anywhere."""

import argparse
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from agent.wire.units import DAY_US
from analyzer.errors import ConfigError
from analyzer.interfaces.onboarding.onboard import ImportOptions, Prometheus, onboard, preview
from analyzer.interfaces.onboarding.prices import given
from analyzer.interfaces.onboarding.runs import Runs, of_file, of_kube_state, of_labels, of_slurm
from analyzer.settings.settings import site_of
from analyzer.text.layout import TextLayout
from collector.cli.imports import add_slurm, open_target
from collector.config import CollectorConfig
from collector.importing.history import Span, span, zone
from collector.prometheus.client import Client, Server
from collector.prometheus.survey import survey
from collector.schedulers.kubernetes.source import Labels

_OK, _CHECK_FAILED = 0, 1
_COLUMNS = 80
_SOURCES = ("slurm", "kube-state-metrics", "labels")


def import_prometheus(argv: list[str]) -> int:
    """Make a ledger of last month from the GPU metrics that a Prometheus or VictoriaMetrics has kept."""
    options = _parser().parse_args(argv)
    config, settings = site_of(options.store, options.config)
    asked = ImportOptions(
        span=_span(options),
        settings=settings,
        prices=given(options.price),
        beside=None if options.dry_run else config.store.parent,
        today=datetime.now(UTC).date(),
        layout=TextLayout(options.width or _width(), options.plain or not _is_terminal(sys.stdout)),
        progress=_overwritten,
    )
    source = _source(options.allocations)
    with Client(_server(options)) as client:
        # Pods are asked of the same server: which of its clusters is meant has to be known before.
        of_pods = source == "kube-state-metrics"
        found = survey(client, asked.span.since, asked.span.until, _cluster(options, config)) if of_pods else None
        runs = _runs(source, client, options, config, asked)
        with open_target(config, dry_run=options.dry_run) as store:
            act = preview if options.dry_run else onboard
            act(asked, Prometheus(client, options.step, runs.cluster, found), runs, store)
    if not options.dry_run:
        where = "" if options.store is None else f" --store {options.store}"
        print(f"next: gpuledger report{where}      gpuledger findings{where}")
    return _CHECK_FAILED if runs.unread else _OK


def _span(options: argparse.Namespace) -> Span:
    """Return the span: whole days of UTC, up to the last midnight unless an end is named.

    A day that is not over would be brought once more when it is.
    """
    now = time.time_ns() // 1000
    until = options.until or datetime.fromtimestamp(now // DAY_US * DAY_US // 1_000_000, UTC).isoformat()
    return span(options.since, until, now, zone(options.timezone or "UTC"))


def _source(word: str) -> str:
    if word in _SOURCES or Path(word).exists():
        return word
    near = get_close_matches(word, _SOURCES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"say {', '.join(_SOURCES)}, or the name of a file"
    raise ConfigError(f"--allocations {word}: there is no such file; {hint}")


def _runs(
    source: str, client: Client, options: argparse.Namespace, config: CollectorConfig, asked: ImportOptions
) -> Runs:
    cluster = _cluster(options, config)
    if source == "slurm":
        return of_slurm(options, asked.span)
    if source == "kube-state-metrics":
        labels = Labels(config.kubernetes_user_labels, config.kubernetes_project_labels, config.kubernetes_labels)
        return of_kube_state(client, cluster, labels, asked.span)
    return of_labels(cluster, asked.span) if source == "labels" else of_file(Path(source), cluster, asked.span)


def _cluster(options: argparse.Namespace, config: CollectorConfig) -> str:
    return options.cluster or config.kubernetes or config.slurm or "cluster"


def _server(options: argparse.Namespace) -> Server:
    headers = dict(_header(text) for text in options.header)
    return Server(
        url=options.url.rstrip("/"),
        token=options.token_file,
        user=options.user,
        password=options.password_file,
        ca=options.ca,
        headers=headers,
        match=options.match,
    )


def _header(text: str) -> tuple[str, str]:
    name, found, value = text.partition(":")
    if not found or not name.strip():
        raise ConfigError(f"--header {text!r} is not a header; write it as X-Scope-OrgID: team")
    return name.strip(), value.strip()


def _overwritten(text: str) -> None:
    """Show a line on a terminal's standard error, in place of the last one; elsewhere nothing."""
    if _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _is_terminal(stream: object) -> bool:
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return bool(getattr(stream, "isatty", lambda: False)()) and encoding == "utf8"


def _width() -> int:
    return min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 24)).columns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger import prometheus",
        description=import_prometheus.__doc__,
        epilog="Brought twice, it counts once. A day is 24 hours of UTC. See docs/import-prometheus.md for the metrics "
        "that are read, docs/import-slurm.md for the runs.",
    )
    parser.add_argument("--url", required=True, metavar="URL", help="the server, as http://prometheus:9090")
    parser.add_argument("--since", default="4w", metavar="TIME", help="4w, 30d, 2026-11-01 (default: 4w)")
    parser.add_argument("--until", metavar="TIME", help="(default: the last midnight, so that whole days are brought)")
    parser.add_argument(
        "--allocations",
        default="labels",
        metavar="SOURCE",
        help="who held the GPUs: slurm (sacct, here or in --file), kube-state-metrics (from the same server), a CSV, "
        "Parquet, Arrow or JSON file, or labels, which are what dcgm-exporter knows by itself (default: labels)",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="KIND=DOLLARS",
        help="what an hour of such a GPU costs, as h100=2.60; kept in prices.toml beside the store",
    )
    parser.add_argument("--step", type=_seconds, metavar="SECONDS", help="one sample for so much time (default: all)")
    server = parser.add_argument_group("the server")
    server.add_argument("--token-file", type=Path, metavar="FILE", help="file of a bearer token")
    server.add_argument("--user", metavar="NAME", help="basic authentication, with --password-file")
    server.add_argument("--password-file", type=Path, metavar="FILE")
    server.add_argument("--ca", type=Path, metavar="FILE", help="certificates to trust instead of the system's")
    server.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="as X-Scope-OrgID: team")
    server.add_argument(
        "--match", default="", metavar="MATCHERS", help="only series with these labels, as 'cluster=\"east\"'"
    )
    add_slurm(parser.add_argument_group("the runs"))
    parser.add_argument("--timezone", default="", metavar="ZONE", help="of times without one (default: UTC)")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    parser.add_argument("--dry-run", action="store_true", help="look and ask, write nothing")
    parser.add_argument("--width", type=int, metavar="N", help="characters of a line (default: 80)")
    parser.add_argument("--plain", action="store_true", help="ASCII, as in a pipe")
    return parser


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return found
