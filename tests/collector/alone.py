"""The collector in a process of its own, as `gpuledger serve --only collector` runs it, without loading the pages."""

import argparse

from agent.log_format import configure
from collector.cli.imports import add_settings, config_of
from collector.http.server import serve as run_server


def serve(argv: list[str]) -> int:
    """Run the collector until a signal ends it."""
    parser = argparse.ArgumentParser()
    add_settings(parser)
    options = parser.parse_args(argv)
    config, file = config_of(options)
    configure(config.log_format, config.log_level)
    run_server(config, file)
    return 0
