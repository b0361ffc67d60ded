"""A JSON object in a cell of somebody else's file."""

from agent.wire.bounded import json_said

_MAX_LETTERS = 20_000


def json_object(text: str | None) -> dict[str, object]:
    """Return the object that a cell holds; empty where there is none, or it is none: it only helps to name things."""
    if text is None or len(text) > _MAX_LETTERS:
        return {}
    try:
        found = json_said(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
