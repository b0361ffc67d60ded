"""The labels of an allocation, as its row has them."""

from agent.wire.bounded import json_said


def labels_of(text: str | None) -> dict[str, str]:
    """Return the labels of an allocation, a JSON object of strings; empty where there are none or they are broken."""
    try:
        labels = json_said(text or "{}")
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
