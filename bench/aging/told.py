"""Whether what differs between two readings is told: not a byte may, but where the later one says what is not kept.

Observations (notices, and rules that lacked a signal) claim no time and no money; they may go where it is said that
what they rest on has expired. Of all else a value may become unknown where the object that holds it says that it is not
kept, never another number, and a table may lose rows where that is its reason.
"""

import json
from collections.abc import Mapping
from typing import Any

OBSERVATIONS = ("notices", "unjudged", "not_judged")
UNJUDGED = "findings unjudged"  # which names the rules, with what each lacked
NOT_KEPT = ("no longer kept", "have expired", "Not kept:")


def untold(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the readings of `after` that differ without a word; a text is what its JSON is."""
    differ = [name for name, text in after.items() if text != before[name]]
    return [
        name
        for name in differ
        if not _is_told(before, after, name.removesuffix(" text").removesuffix(" csv").removesuffix(" json"), name)
    ]


def _is_told(before: Mapping[str, str], after: Mapping[str, str], stem: str, name: str) -> bool:
    of = name if name.startswith("GET ") else f"{stem} json"
    said = after[of] + after.get(f"{UNJUDGED} json", "")
    if not any(word in said for word in NOT_KEPT):
        return False
    if stem == UNJUDGED:
        return True
    old, new = (each[of].partition(" ")[2] if of.startswith("GET ") else each[of] for each in (before, after))
    try:
        return _agree(json.loads(old), json.loads(new))
    except json.JSONDecodeError:
        return False


def _agree(old: Any, new: Any) -> bool:  # noqa: ANN401 - whatever JSON holds
    """Whether two values are the same but for what is told."""
    if old == new:
        return True
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_agree, old, new))
    if not isinstance(old, dict) or not isinstance(new, dict) or old.keys() != new.keys():
        return False
    told = (value for value in new.values() if isinstance(value, str))
    says = any(word in value for value in told for word in NOT_KEPT)
    is_why = any(word in (new.get("because") or "") for word in NOT_KEPT)
    return all(
        key in OBSERVATIONS
        or _agree(old[key], new[key])
        or (says and (new[key] is None or isinstance(new[key], str)))
        or (is_why and _is_less(old[key], new[key]))
        for key in old
    )


def _is_less(old: Any, new: Any) -> bool:  # noqa: ANN401 - whatever JSON holds
    """Whether a table only lost rows, or is not there at all."""
    return new is None or (isinstance(old, list) and isinstance(new, list) and all(one in old for one in new))
