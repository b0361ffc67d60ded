"""Which part of an id may be a name that a person chose: of a run, a mount point, a peer.

Job numbers, uids, and the names of hosts, clusters and devices are no names of people. But a pod whose uid is not yet
known is told by namespace and name, a run may declare itself as `ada-test`, a home directory is mounted at /home/ada,
and the peer of a login shell is the address of somebody's desk.
"""

import ipaddress
import re
from collections.abc import Callable

# Slurm 81234_7 and 81234+1, a process 4711.99213, uids of pods and runs. What a user's own id says is not among them:
# the user's number is in it.
_NUMBER = re.compile(
    r"\d+(?:[._+]\d+)*"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f]{32}"
)


def with_pseudonym(value: str, pseudonym: Callable[[str], str]) -> str:
    """Return an id with its part that may be a name replaced; as it is where there is none."""
    if value.startswith("/") or _is_address(value):
        return pseudonym(value)
    scheduler, _, rest = value.partition("/")
    cluster, slash, name = rest.partition("/")
    if not slash or _NUMBER.fullmatch(name):
        return value
    return f"{scheduler}/{cluster}/{pseudonym(name)}"


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
