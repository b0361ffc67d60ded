"""Answer questions to the command line in one process, which loads the code once: JSON comes in, and JSON goes out.

A question is the words of a command; its answer is the exit code and what was printed on either stream.
"""

import json
import os
import sys
import tempfile
import traceback
from typing import IO

import gpuledger


def main() -> int:
    """Ask every question, in order."""
    questions = json.load(sys.stdin)
    answers = [answer(words) for words in questions]
    json.dump(answers, sys.stdout)
    return 0


def answer(words: list[str]) -> str:
    """Return what one command says, as it would in a process of its own."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = ((1, os.dup(1), out), (2, os.dup(2), err))
        for stream, _, file in streams:
            os.dup2(file.fileno(), stream)
        try:
            code = _ended(words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            for stream, before, _ in streams:
                os.dup2(before, stream)
                os.close(before)
        printed = [_text(file) for _, _, file in streams]
    errors = f"--- errors\n{printed[1]}" if printed[1] else ""
    return f"exit {code}\n{printed[0]}{errors}"


def _ended(words: list[str]) -> int:
    try:
        return gpuledger.main(words)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
    except Exception:  # noqa: BLE001 - Python itself would say so, and end with 1
        traceback.print_exc()
    return 1


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
