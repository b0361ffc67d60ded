"""A JSON object in a cell of somebody else's file."""

import json

MAX_LETTERS = 20_000


def json_object(text: str | None) -> dict[str, object]:
    """Return the object that a cell holds; empty where there is none, or it is none: it only helps to name things."""
    if text is None or len(text) > MAX_LETTERS:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
