"""`gpuledger agent doctor`."""

import argparse
import json
import os

from agent.doctor.examine import examine
from agent.doctor.page import doctor_lines, document
from agent.settings.config import DEFAULT_FILE, load, settings_file

_FAILED = 1


def doctor(argv: list[str]) -> int:
    """Say what this host can measure, what it costs, and what leaves it; 1 where something must be mended."""
    parser = argparse.ArgumentParser(
        prog="gpuledger agent doctor",
        description="What this host can and cannot measure, what to do about it, and exactly what leaves it.",
        epilog="Run it as the agent's user to see what the agent sees. It sends nothing. 1: something is bad.",
    )
    parser.add_argument("--config", metavar="FILE", help=f"settings; {DEFAULT_FILE} where it exists")
    parser.add_argument("--json", action="store_true", help="as JSON")
    given = parser.parse_args(argv)
    found = examine(load(settings_file(given.config), os.environ))
    print(json.dumps(document(found), indent=1) if given.json else "\n".join(doctor_lines(found)))
    return 0 if found.healthy else _FAILED
