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
    name = _NOT_IN_A_NAME.sub("-", value)[:NAME_CHARACTERS_MAX]
    return f"declared/{node}/{name}"
