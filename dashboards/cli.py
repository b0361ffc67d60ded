"""The server's commands: serve and demo."""

import argparse
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from agent.child import load
from agent.log_format import configure
from analyzer.errors import ConfigError
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.causes.serving_policy import policy_book
from analyzer.ledger.teams import model_book, team_book
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import TABLES, Settings
from analyzer.text.layout import has_colour, paint
from collector.access.open_access import require_way_in
from collector.cli.imports import add_settings, config_of
from collector.http.server import listen
from collector.http.server import serve as collect_only
from collector.store.database import open_store
from dashboards.analysis import ANALYZE_SECONDS

if TYPE_CHECKING:
    from dashboards.demo import DemoResult

_OK, _INTERRUPTED = 0, 130
_COLUMNS = 80
_ANY_PORT, _PAGE_PORT = 0, 8470


def serve(argv: list[str]) -> int:
    """Collector, analysis and pages in one process, until a signal ends it."""
    parser = argparse.ArgumentParser(prog="gpuledger serve", description=serve.__doc__)
    parser.add_argument(
        "--only", choices=("collector", "analyzer"), help="one of them alone; the analyzer brings the pages"
    )
    parser.add_argument(
        "--analyze-every",
        type=float,
        default=ANALYZE_SECONDS,
        metavar="SECONDS",
        help="how often the ledger is brought up to date at least, a small one sooner (default: %(default)g)",
    )
    add_settings(parser)
    options = parser.parse_args(argv)
    if options.analyze_every <= 0:
        raise ConfigError(f"--analyze-every is {options.analyze_every:g}: must be a number of seconds above 0")
    config, file = config_of(options)
    configure(config.log_format, config.log_level)
    if options.only == "collector":
        collect_only(config, file)
        return _OK
    load("dashboards.server.app")  # not above: a collector alone starts without the pages, in half of the time
    from dashboards.server.app import ServerConfig, create_server
    from dashboards.server.sign_in import OidcSettings

    settings = Settings.read(file)
    price_book(settings)  # what is wrong with them is said now, and not by the first analysis
    team_book(settings)
    model_book(settings)
    policy_book(settings)
    mail, alarms = MailSettings.read(file, TABLES), AlarmSettings.read(file, TABLES)
    oidc, provider = OidcSettings.read(file, TABLES), None
    if oidc.issuer:
        from dashboards.server.oidc import Oidc  # who has keys alone loads no authlib

        provider = Oidc(oidc, settings.site_url)
    with open_store(config) as store:
        server = ServerConfig(
            config, settings, options.analyze_every, options.only is None, alarms, mail, False, oidc, provider
        )
        app = create_server(server, store)
        require_way_in(app.state.access, config, file)
        listen(app, config, "the page is at %s/")
    return _OK


def demo(argv: list[str]) -> int:
    """A simulated site through the real pipeline: 24 hosts, 192 GPUs, one week; report and page. No GPU needed."""
    load("dashboards.demo")
    from dashboards.demo import DemoConfig
    from dashboards.demo import demo as build_demo

    options = _demo_parser().parse_args(argv)
    plain = not sys.stdout.isatty()
    config = DemoConfig(
        options.once,
        options.seed,
        _port(options),
        options.store,
        width=min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 24)).columns),
        ascii=plain,
    )
    print("gpuledger demo: a simulated week of 192 GPUs on 24 hosts; its figures are invented", file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the temporary store goes either way
    try:
        with build_demo(config) as shown:
            sys.stdout.write(paint(shown.report) if has_colour() and not plain else shown.report)
            sys.stdout.flush()
            _tell(shown, options)
            if not options.once:
                threading.Event().wait()
    except KeyboardInterrupt:
        return _OK if not options.once else _INTERRUPTED
    return _OK


def _port(options: argparse.Namespace) -> int:
    """Return the port asked for; where there is no page, any free one carries the batches."""
    return options.port if options.port is not None else _ANY_PORT if options.once else _PAGE_PORT


def _tell(shown: "DemoResult", options: argparse.Namespace) -> None:
    """Say what it took, and how the commands that the report names reach this site."""
    took = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in shown.seconds.items())
    print(f"\n{shown.gpu_rows:,} GPU samples; {took}", file=sys.stderr)
    if not options.once:
        print(f"page: {shown.url}/        Ctrl-C ends the demo", file=sys.stderr)
        print(f"to read on meanwhile: gpuledger findings --server {shown.url}", file=sys.stderr, flush=True)
    elif options.store:
        print(f"to read on: gpuledger findings --store {options.store}", file=sys.stderr)
    else:
        print("nothing is kept; to read on: gpuledger demo --once --store demo/demo.duckdb", file=sys.stderr)


def _demo_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuledger demo", description=demo.__doc__)
    parser.add_argument("--once", action="store_true", help="print the report and end; no page")
    parser.add_argument("--seed", type=int, default=1, help="another week of the same fleet (default: 1)")
    parser.add_argument(
        "--port", type=int, help=f"of the page, on loopback; 0 takes a free one (default: {_PAGE_PORT})"
    )
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the store here, to be read by other commands")
    return parser
