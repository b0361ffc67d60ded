"""How exceptions look in the log: without the carets below what failed. Installed once, for every command.

To place its carets, `traceback` parses the line that failed. Up to CPython 3.11.7, of two threads that build syntax
trees while the garbage collector runs Python in between, one raises SystemError
(https://github.com/python/cpython/issues/106905): what a thread does would fail because another one logged something.
So nothing that logs may parse. PYTHONNODEBUGRANGES=1 does the same wherever we say how the process is started
(systemd/, Dockerfile).
"""

import logging
import sys
from contextlib import suppress
from traceback import TracebackException
from types import TracebackType
from typing import Any

Caught = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]  # as of sys.exc_info()


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


def without_carets(caught: Caught) -> str:
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
