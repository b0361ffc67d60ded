"""What the commands that make price rows share: the day they are as of, and the new file they go to."""

import argparse
from datetime import date
from pathlib import Path

from analyzer.errors import ConfigError


def day(text: str) -> date:
    """Return the day that an option names; argparse tells what is none."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2026-11-01") from error


def write_new(text: str, out: Path) -> None:
    """Write price rows to a new file.

    Raises:
        ConfigError: the file is there already, or cannot be written.
    """
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{out} is there already, and is not written over; name a new file") from error
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
