"""gpuledger assistant: the tools of an assistant, over stdin and stdout or over HTTP."""

import argparse
import logging
import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import analyzer.interfaces.mcp
import collector.http.server
from agent.log_format import configure
from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import add_place
from analyzer.interfaces.mcp.over_http import LOOPBACK, PATH, forwarding_app, guarded_app
from analyzer.interfaces.mcp.server import create_server
from analyzer.interfaces.mcp.site import OwnSite, ServedSite
from analyzer.server_client import TOKEN
from analyzer.settings.settings import Settings
from collector.access.open_access import access_of, require_way_in
from collector.config import CollectorConfig, is_loopback, load, settings_of_store
from collector.http.server import listen
from collector.store.database import open_for_command

_OK = 0


def assistant(argv: list[str]) -> int:
    """Serve read-only tools over the ledger to an assistant, by MCP: stdin and stdout, or HTTP with --http.

    They read findings, runs, costs and topology, and reckon plans. None applies, accepts, mutes or writes anything.
    """
    parser = argparse.ArgumentParser(prog="gpuledger assistant", description=assistant.__doc__)
    add_place(parser)
    parser.add_argument(
        "--http",
        metavar="[HOST:]PORT",
        help=f"serve {PATH} there, with the keys of the collector (default host: 127.0.0.1)",
    )
    options = parser.parse_args(argv)
    # What others log, a name within, must never come between the lines of the protocol on stdout.
    configure(level="warning")
    for ours in (
        analyzer.interfaces.mcp.__name__,
        collector.http.server.__name__,
    ):  # what was proposed, and what was said of it
        logging.getLogger(ours).setLevel(logging.INFO)
    if options.http is None:
        _over_stdio(options)
    else:
        _over_http(options)
    return _OK


def _over_stdio(options: argparse.Namespace) -> None:
    if options.server:
        create_server(ServedSite(options.server, os.environ.get(TOKEN))).run()
    else:
        config, _, settings = _store(options)
        create_server(OwnSite(config, settings)).run()


def _over_http(options: argparse.Namespace) -> None:
    if options.server:
        host, config = _listening(options.http, options.config)
        if not is_loopback(host):
            raise ConfigError(
                f"--http {options.http} with --server would lend this machine's way to {options.server} to others; "
                "listen on 127.0.0.1, or read a --store"
            )
        site = ServedSite(options.server, None)  # our own token is ours: each client shows its own
        app = forwarding_app(create_server(site), LOOPBACK, site)
    else:
        own, file, settings = _store(options)  # a server's: their tokens are asked for here, too
        host, config = _listening(options.http, file)
        config = replace(own, listen=config.listen)
        access = access_of(config, config.store)
        app = guarded_app(create_server(OwnSite(config, settings, access)), _hosts(host, settings), access)
        require_way_in(access, config, options.config)
    listen(app, config, f"the tools are at %s{PATH}")


def _store(options: argparse.Namespace) -> tuple[CollectorConfig, Path | None, Settings]:
    """Return the settings of the store, and their file; what is wrong with either is said now, and not to a model."""
    config, file = settings_of_store(options.store, options.config, os.environ)
    settings = Settings.read(file)
    open_for_command(config, read_only=True).close()
    return config, file, settings


def _listening(where: str, settings: Path | None) -> tuple[str, CollectorConfig]:
    """Return the host to listen on, and the collector's settings with that address in the place of its own."""
    told = replace(load(settings, os.environ), listen=where if ":" in where else f"127.0.0.1:{where}")
    return told.address[0], told


def _hosts(host: str, settings: Settings) -> tuple[str, ...]:
    """Return the names by which clients may call us.

    Raises:
        ConfigError: it listens everywhere, and nobody has said how it is called.
    """
    if is_loopback(host):
        return LOOPBACK
    public = urlsplit(settings.site_url).hostname if settings.site_url else None
    named = [name for name in (host, public) if name and name not in ("0.0.0.0", "::")]  # noqa: S104 - not listened on
    if not named:
        raise ConfigError(
            f"--http {host} listens on every address; say in [analyzer] site_url by which host clients call it"
        )
    return tuple(named)
