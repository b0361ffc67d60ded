"""A note left for the agent: a small file of JSON, and who may have written it. Anything may lie in its place."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.wire.bounded import json_said

_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says, and its file's owner and mode."""

    said: Mapping[str, Any]
    uid: int
    mode: int


def read_note(path: Path) -> Note | None:
    """Return a note, or None where there is none that can be understood.

    A pipe is not waited for, since the beat would wait with it, and a link is not followed: it would lend its target's
    owner to whoever made it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            about, text = os.fstat(file.fileno()), file.read(_MOST_BYTES)
        said = json_said(text)
    except (OSError, ValueError, TypeError):  # TypeError: an empty pipe says nothing at all
        return None
    return Note(said, about.st_uid, about.st_mode) if isinstance(said, dict) else None
