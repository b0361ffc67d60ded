"""Ask the agent of these settings, on this host, whether it beats: the health check of its container.

It answers what the last beats read, and leaves out what is older than three of them: a page without its own figures is
that of an agent whose beat hangs.
"""

import argparse
import os
import sys

from agent.errors import AgentError
from agent.settings.config import DEFAULT_FILE, AgentConfig, load, settings_file
from agent.sources.services.exposition import samples
from agent.top.agent_page import page

OF_EACH_BEAT = "gpuledger_agent_rss_bytes"


def _trouble(config: AgentConfig) -> str | None:
    """Return why the agent is not well; None where it is.

    Raises:
        AgentError: its page cannot be read.
    """
    if samples(page(config), {OF_EACH_BEAT}):
        return None
    return f"the agent answers, and has not read its host for three beats ({config.beat_seconds:g} s each)"


def main(argv: list[str]) -> int:
    """Ask the agent of this host whether it beats; on stderr what is wrong, and exit code 1.

    One that serves no /metrics cannot be asked: that is said, and accuses nobody.
    """
    parser = argparse.ArgumentParser(prog="gpuledger agent probe", description=main.__doc__)
    parser.add_argument("--config", metavar="FILE", help=f"the agent's settings; {DEFAULT_FILE} where it exists")
    given = parser.parse_args(argv)
    try:
        config = load(settings_file(given.config), os.environ)
        if config.address is None:
            sys.stderr.write("not looked: agent.listen is off\n")
            return 0
        wrong = _trouble(config)
    except AgentError as error:
        wrong = str(error)
    if wrong is not None:
        sys.stderr.write(f"{wrong}\n")
    return 0 if wrong is None else 1
