"""Ask the server of these settings, on this machine, whether it is ready: the health check of a container.

It ends with 0 where it is, else with 1 and the sentences of /readyz: gpuledger admin probe [SETTINGS.toml].
"""

import argparse
import json
import os
import ssl
import sys
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path

from agent.connection import Reply, ask
from collector.config import CollectorConfig, load
from collector.errors import CollectorError

_PATIENCE_SECONDS = 4.0
_ANSWER_BYTES = 64 * 2**10


def trouble(config: CollectorConfig) -> str | None:
    """Return why the server is not ready; None where it is."""
    try:
        reply = _asked(config)
    except OSError as error:
        return f"nothing answers at {config.listen}: {error}"
    if reply.status == HTTPStatus.OK:
        return None
    try:
        checks = json.loads(reply.body)["checks"]
        return "; ".join(check["sentence"] for check in checks if not check["ok"])
    except (ValueError, KeyError, TypeError):
        return f"/readyz answers {reply.status}"


def _asked(config: CollectorConfig) -> Reply:
    host, port = config.address
    near = _near(host)
    url = f"{'https' if config.tls_certificate else 'http'}://{f'[{near}]' if ':' in near else near}:{port}/readyz"
    # It is ourselves: whose name the certificate bears is for others to check.
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return ask(url, timeout_seconds=_PATIENCE_SECONDS, most_bytes=_ANSWER_BYTES, tls=tls)


def _near(host: str) -> str:
    """Return the address by which this machine reaches what listens on every address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "::1" if address.version == 6 else "127.0.0.1"


def main(argv: list[str]) -> int:
    """Ask the server of these settings, on this host, whether it is ready; on stderr what is wrong, and exit code 1."""
    parser = argparse.ArgumentParser(prog="gpuledger admin probe", description=main.__doc__)
    parser.add_argument("settings", nargs="?", type=Path, metavar="SETTINGS.toml")
    try:
        wrong = trouble(load(parser.parse_args(argv).settings, os.environ))
    except CollectorError as error:
        wrong = str(error)
    if wrong is not None:
        sys.stderr.write(f"{wrong}\n")
    return 0 if wrong is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
