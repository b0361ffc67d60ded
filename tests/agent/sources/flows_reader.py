"""The agent's own source in a namespace of its own, as a user without any right: a line in, one reading out, as JSON.

reader.py PEERS_TABLE
"""

import json
import os
import sys
from pathlib import Path

from agent.attribution.evidence import Process
from agent.attribution.run import HostIdentity, attribute
from agent.sources.flows import FlowSource, Peers

NOBODY = 65534


def run_of(cgroup: str) -> str | None:
    """Return the run of a cgroup as the agent does."""
    found = attribute(Process(0, 0, cgroup), HostIdentity("n1", "alpha"))
    return found.run_id if found.scheduler == "cgroup" else None


if __name__ == "__main__":
    source = FlowSource("n1", run_of, Peers(Path(sys.argv[1]), hosts=Path("nowhere")))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    for _ in sys.stdin:
        reading = source.read()
        sys.stdout.write(
            json.dumps({"rows": reading["flow_samples"], "coverage": source.coverage(), "uid": os.getuid()}) + "\n"
        )
        sys.stdout.flush()
