"""Runs that no scheduler knows: named by who starts them, and never anybody else's, since the user is in the name.

`gpuledger run` names its command by GPULEDGER_RUN_ID, people name what they like by it, torchrun, mpirun and Ray name
theirs by other means. What a process says of itself can be said by anybody; whose it is the kernel says.
"""

import re
from collections.abc import Mapping

VARIABLE = "GPULEDGER_RUN_ID"
_NAME_CHARACTERS_MAX = 128
_DECLARED = "declared"

_RUN_ID = re.compile(r"[a-z]+(?:/[A-Za-z0-9._+:-]+){2,3}")
_OWN = re.compile(rf"{_DECLARED}/([A-Za-z0-9._+:-]+)/(?:([0-9]+)/)?([A-Za-z0-9._+:-]+)")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+:-]")


def users_run_id(place: str, uid: int, name: str) -> str:
    """Return the run that a user calls so: `declared/<node or cluster>/<uid>/<name>`, odd characters dashes."""
    return f"{_DECLARED}/{place}/{uid}/{plain_name(name)}"


def declared_run_id(environment: Mapping[str, str], node: str, uid: int) -> str | None:
    """Return the run that a process of this user says it belongs to, or None where it says nothing.

    `declared/<place>/<name>` is the user's run of that name there, and so one over hosts where all say the same place,
    as their cluster's name. Anything else is a name on this host, the ids of schedulers and of other users too.
    """
    value = environment.get(VARIABLE, "")
    if not value:
        return None
    said = _OWN.fullmatch(value)
    if said is None or said[2] not in (None, str(uid)):
        return users_run_id(node, uid, value)
    return users_run_id(said[1], uid, said[3])


def named_run_id(name: str, node: str) -> str | None:
    """Return the run that the settings name: a whole id as it is, else one of this host's; None without a name."""
    return None if not name else name if _RUN_ID.fullmatch(name) else f"{_DECLARED}/{node}/{plain_name(name)}"


def plain_name(name: str) -> str:
    """Return a name as a run id may bear it: its odd characters dashes, and not too long."""
    return _NOT_IN_A_NAME.sub("-", name)[:_NAME_CHARACTERS_MAX]
