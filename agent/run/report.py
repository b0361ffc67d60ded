"""The report on a recording, by the analyzer: another package, which may be absent, so another process."""

import contextlib
import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, SIGTERM, default_int_handler, signal
from subprocess import DEVNULL, PIPE

from agent import child
from agent.errors import ConfigError, EnvelopeError
from agent.run.command import STDERR
from agent.wire.recording import read_recording

_FORMATS = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}
_PROFILES = (".html", ".htm", ".json")
_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the report shall say, and where it shall go beside stderr."""

    price: str | None = None
    against: Path | None = None
    file: Path | None = None
    open_page: bool = False
    profile: Path | None = None

    @classmethod
    def checked(
        cls, price: str | None, against: str | None, file: str | None, *, open_page: bool, profile: str | None = None
    ) -> "Wanted":
        """Return the wishes, found fulfillable before the command runs for a day.

        Raises:
            ConfigError: one of them is not; the sentence names it.
        """
        try:
            worth = float(price) if price is not None else 0.0
        except ValueError:
            worth = -1.0
        if not 0 <= worth < float("inf"):
            raise ConfigError(f"--price {price!r} is not a valid price per GPU-hour; example: 2.60")
        if against is not None:
            _compared(Path(against))
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise ConfigError(f"--report {file}: no such folder: {Path(file).absolute().parent}")
        if profile is not None and Path(profile).suffix.lower() not in _PROFILES:
            raise ConfigError(f"--profile {profile} must end with .html or .json")
        if profile is not None and not Path(profile).absolute().parent.is_dir():
            raise ConfigError(f"--profile {profile}: no such folder: {Path(profile).absolute().parent}")
        named = [Path(each) if each else None for each in (against, file, profile)]
        return cls(price, named[0], named[1], open_page, named[2])

    @property
    def options(self) -> list[str]:
        """The options of `gpuledger report recording`."""
        price = ["--price", self.price] if self.price is not None else []
        return [*price, *(["--against", str(self.against)] if self.against else [])]


def _compared(against: Path) -> None:
    """Raise ConfigError where a recording cannot be compared with."""
    if not against.is_file():
        raise ConfigError(f"--against {against}: no such recording")
    try:
        read_recording(against)
    except EnvelopeError as error:
        raise ConfigError(f"--against {against}: {error}") from error


def report(recording: Path, wanted: Wanted, say: Callable[[str], None], write: Callable[[str], None]) -> None:
    """Print the report on stderr, and write it where it is wanted; where it cannot be made, say how to get it."""
    with _stoppable():
        words = ["report", "recording", str(recording), *wanted.options]
        # A terminal has its colours and its width from it; all else is written by us, who expect it to fail.
        if not _asked(words, write, STDERR if os.isatty(STDERR) else PIPE):
            say(f"no report could be made on this host; where the server is installed: gpuledger {' '.join(words)}")
            return
        page = wanted.file or (recording.with_suffix(".html") if wanted.open_page else None)
        if page is None:
            return
        kind = _FORMATS.get(page.suffix.lower(), "text")
        if _asked([*words, "--format", kind, "--out", str(page)], write):
            say(f"the report is in {page}")
            if wanted.open_page:
                webbrowser.open(page.absolute().as_uri())


def profile(recording: Path, wanted: Wanted, say: Callable[[str], None], write: Callable[[str], None]) -> None:
    """Write the capacity profile where it is wanted, signed with this user's own key, or say how to get it."""
    if wanted.profile is None:
        return
    price = ["--price", wanted.price] if wanted.price is not None else []
    with _stoppable():
        words = ["capacity", "profile", "--recording", str(recording), "--out", str(wanted.profile), *price]
        if _asked(words, write):
            say(f"the capacity profile is in {wanted.profile}, self-measured and signed with your own key")
        else:
            say(f"no profile was made; to see why: gpuledger {' '.join(words)}")


def _asked(words: list[str], write: Callable[[str], None], stdout: int = DEVNULL) -> bool:
    """Run a command of the analyzer and return whether it ended well; what it says through pipes is written on."""
    if sys.version_info < (3, 11):  # reports are the server's, which needs it
        return False
    line = child.command("gpuledger", *words)
    try:
        ran = subprocess.run(line, stdin=DEVNULL, stdout=stdout, stderr=PIPE, timeout=_TIMEOUT_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    write(b"".join(said for said in (ran.stdout, ran.stderr) if said).decode(errors="replace"))
    return ran.returncode == 0


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let signals end the report alone: the exit code is the command's, whatever happens after it."""
    before = {number: signal(number, default_int_handler) for number in (SIGTERM, SIGHUP)}
    with contextlib.suppress(KeyboardInterrupt):
        yield
    for number, handler in before.items():
        signal(number, handler)
