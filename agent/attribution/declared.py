"""Runs that declare themselves by GPULEDGER_RUN_ID, as `gpuledger run` does for its command."""

import re
from collections.abc import Mapping

VARIABLE = "GPULEDGER_RUN_ID"
NAME_CHARACTERS_MAX = 128

_RUN_ID = re.compile(r"[a-z]+(?:/[A-Za-z0-9._+:-]+){2,3}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+:-]")


def declared_run_id(environment: Mapping[str, str], node: str) -> str | None:
    """Return the run that the process says it belongs to, or None where it says nothing.

    A whole run id is taken as it is; any other name becomes `declared/<node>/<name>`, its odd characters dashes.
    """
    value = environment.get(VARIABLE, "")
    if not value:
        return None
    if _RUN_ID.fullmatch(value):
        return value
    return f"declared/{node}/{plain_name(value)}"


def plain_name(name: str) -> str:
    """Return a name as a run id may bear it: its odd characters dashes, and not too long."""
    return _NOT_IN_A_NAME.sub("-", name)[:NAME_CHARACTERS_MAX]
