"""The log of a process that runs for long: one event a line, with its time, level and logger; no carets in tracebacks.

In text what follows the first line of an event (its traceback) is indented; in JSON it is in the line. Neither lets
what somebody sent begin a line of its own.

To place its carets, `traceback` parses the line that failed. Up to CPython 3.11.7, of two threads that build syntax
trees while the garbage collector runs Python in between, one raises SystemError
(https://github.com/python/cpython/issues/106905): what a thread does would fail because another one logged something.
So nothing that logs may parse: `install` is called once, by every command. PYTHONNODEBUGRANGES=1 does the same
wherever we say how the process is started (systemd/, Dockerfile).
"""

import json
import logging
import re
import sys
import threading
from contextlib import suppress
from datetime import datetime, timezone
from traceback import TracebackException
from types import TracebackType
from typing import Any, Literal, get_args

_Caught = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]  # as of sys.exc_info()
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
FORMATS: tuple[str, ...] = get_args(LogFormat)
LEVELS: tuple[str, ...] = get_args(LogLevel)
INDENT = "    "
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # what moves a terminal, or ends a line for somebody


def configure(form: LogFormat = "text", level: LogLevel = "info") -> None:
    """Write the log of this process to stderr, also what nobody caught and warnings; the last call counts."""
    install()
    root = logging.getLogger()
    for before in [handler for handler in root.handlers if isinstance(handler, ToStderr)]:
        root.removeHandler(before)
    handler = ToStderr()
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


class ToStderr(logging.StreamHandler):  # type: ignore[type-arg]  # Python 3.10 has no StreamHandler[...]
    """The handler that `configure` has set up."""


class TextLine(logging.Formatter):
    """An event as `2026-11-26T05:01:02.123Z WARNING collector.upkeep: what happened`, its traceback indented below."""

    def format(self, record: logging.LogRecord) -> str:
        """Return it."""
        message = _in_one_line(without_secrets(record.getMessage()))
        first = f"{_time(record)} {record.levelname} {record.name}: {message}"
        told = without_secrets(_traceback(record))
        return "\n".join([first, *(INDENT + _escaped(line) for line in told.splitlines())])


class JsonLine(logging.Formatter):
    """An event as one line of JSON: time, level, logger, message and, of one with an exception, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return it."""
        told = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if traceback := _traceback(record):
            told["traceback"] = without_secrets(traceback)
        return json.dumps(told)


# Of an address, or of a libpq connection string in any of its spellings: what stands for the password.
_PASSWORDS = (
    re.compile(r"(?<=://)([^/\s:@\"']*):[^/\s\"']*@"),
    re.compile(r"\b((?:ssl)?password)\s*=\s*(?:'(?:[^'\\]|\\.)*'?|(?:[^\s'\\&\"]|\\.)+)", re.IGNORECASE),
)
_SHOWN = (r"\1:***@", r"\1=***")
_SECRET_LEAST = 6  # characters: a shorter one stands in too many words, and its address is seen by the patterns
_KNOWN_SECRETS: set[str] = set()


def never_say(secret: str) -> None:
    """Have `without_secrets` put stars in the place of a secret of the settings."""
    if len(secret) >= _SECRET_LEAST:
        _KNOWN_SECRETS.add(secret)


def without_secrets(text: str) -> str:
    """Return a text that others wrote, such as a driver's error, without passwords and secrets of the settings."""
    for secret in sorted(_KNOWN_SECRETS, key=len, reverse=True):
        text = text.replace(secret, "***")
    for pattern, shown in zip(_PASSWORDS, _SHOWN, strict=True):
        text = pattern.sub(shown, text)
    return text


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _in_one_line(message: str) -> str:
    """Return a message of several lines, as DuckDB writes them, as one."""
    return _escaped(" ".join(line.strip() for line in message.splitlines() if line.strip()))


def _escaped(line: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), line)


def _traceback(record: logging.LogRecord) -> str:
    """Return the text of a record's exception, and of the stack that its caller asked for; empty where neither is."""
    caught = record.exc_text or (without_carets(record.exc_info) if record.exc_info else "")
    return "\n".join(part for part in (caught, record.stack_info) if part)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("gpuledger").critical("BUG: uncaught exception", exc_info=(kind, error, trace))


def _uncaught_in_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not issubclass(ended.exc_type, SystemExit):
        caught = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        name = ended.thread.name if ended.thread else "?"
        logging.getLogger("gpuledger").critical("BUG: thread %s ended by an exception", name, exc_info=caught)


def install() -> None:
    """Have each record carry its traceback as text, which all formatters take as it is, uvicorn's and our own."""
    logging.setLogRecordFactory(Record)
    logging.Handler.handleError = tell_of_failure  # type: ignore[method-assign, assignment]  # its own parses as well


class Record(logging.LogRecord):
    """A record whose exception is text from the start."""

    def __init__(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 - as the logger gave them
        super().__init__(*args, **more)
        if self.exc_info:
            self.exc_text = without_carets(self.exc_info)


def without_carets(caught: _Caught) -> str:
    """Return the traceback of an exception and of those that led to it, as `logging` writes it but for the carets."""
    _, error, trace = caught
    if error is None:
        return "NoneType: None"
    told = TracebackException(type(error), error, trace, compact=True)
    if sys.version_info >= (3, 11):  # older ones have none
        _leave_out_carets(told)
    return "".join(told.format()).removesuffix("\n")


def _leave_out_carets(told: TracebackException) -> None:
    pending: list[TracebackException | None] = [told]
    while pending:
        if (each := pending.pop()) is not None:
            for frame in each.stack:
                frame.colno = frame.end_colno = None
            pending += [each.__cause__, each.__context__, *(each.exceptions or ())]


def tell_of_failure(_: logging.Handler, record: logging.LogRecord) -> None:
    """Tell on stderr of a record that could not be written, as `logging` does; called while the failure is caught."""
    if logging.raiseExceptions and sys.stderr:
        with suppress(OSError):
            sys.stderr.write(
                f"--- Logging error ---\n{without_carets(sys.exc_info())}\n"
                f"Logged from file {record.filename}, line {record.lineno}\n"
                f"Message: {record.msg!r}\nArguments: {record.args!r}\n"
            )
