"""Lines to paste, folded so that they still paste: where their language lets a line go on on the next, and only there.

A shell's line ends in a backslash between two words, or after a comma of a word that is too long by itself; Python's
breaks after a comma within brackets; a remark goes above its line. What can be broken nowhere stays as long as it is.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from analyzer.recommendations.recommendation import Artefact, Form

_SHELL: tuple[Form, ...] = ("slurm", "shell", "rankfile", "mig")
_HANGING = " " * 4
_CLOSED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*\"""")
_PARTS = re.compile(
    r"""(?P<escaped>\\.)|(?P<quoted>'[^']*'?|"(?:\\.|[^"\\])*"?)|(?P<remark>(?<!\S)\#.*)"""
    r"""|(?P<bracket>[][(){}])|(?P<comma>,)|(?P<space>(?<=\S)\ )|(?P<other>.)""",
)
_DIRECTIVES = ("#SBATCH", "#!")  # what begins as a remark and is none


@dataclass(frozen=True, slots=True)
class _Read:
    """One line of code as read from left to right: where it may break, where its remark begins, what stays open."""

    spaces: tuple[int, ...]  # unquoted ones; in Python those after a comma within brackets
    commas: tuple[int, ...]  # those after which a word of a shell may go on
    remark: int | None
    quote: str  # the quote that is still open at its end, or nothing
    depth: int  # brackets that are still open


def folded(artefact: Artefact, width: int) -> list[str]:
    """Return its lines, without control characters, none longer than `width` where it could be helped."""
    found: list[str] = []
    quote, depth = "", 0
    for line in _remarks_joined(artefact.text, width):
        read = _read(line, quote, depth, artefact.form)
        if len(line) <= width or quote:
            found.append(line)
        else:
            found += _line(line, read, artefact.form, width)
        quote, depth = read.quote, read.depth
    return found


def _remarks_joined(text: str, width: int) -> list[str]:
    """Return the lines; a remark that is too long has those after it with it that go on with its sentence."""
    found: list[str] = []
    for raw in text.splitlines():
        line = "".join(letter if letter.isprintable() else "?" for letter in raw.rstrip())
        before = found[-1] if found else ""
        if before.startswith("# ") and len(before) > width and line[:2] == "# " and line[2:3].islower():
            found[-1] = f"{before} {line[2:]}"
        else:
            found.append(line)
    return found


def _line(line: str, read: _Read, form: Form, width: int) -> Iterator[str]:
    indent = line[: len(line) - len(line.lstrip())]
    code = line if read.remark is None else line[: read.remark].rstrip()
    if read.remark is not None:
        yield from textwrap.wrap(
            line[read.remark :].lstrip("# "), width, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ",
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
    if not code.strip():
        return
    if form in _SHELL and not code.lstrip().startswith("#"):
        yield from _broken(code, read, indent + _HANGING, width, " \\")
    elif form == "python":
        yield from _broken(code, read, indent + _HANGING, width, "")
    else:
        yield code


def _broken(code: str, read: _Read, hanging: str, width: int, mark: str) -> Iterator[str]:
    start, first = 0, ""
    while len(first) + len(code) - start > width:
        room = start + width - len(first) - len(mark)
        before = [at for at in read.spaces if start < at <= room]
        inside = [at for at in read.commas if start <= at < room] if mark else []
        after = [at for at in read.spaces if room < at < len(code)]
        if before:
            yield f"{first}{code[start : before[-1]].rstrip()}{mark}"
            start, first = before[-1] + 1, hanging
        elif inside:
            yield f"{first}{code[start : inside[-1] + 1]}\\"
            start, first = inside[-1] + 1, ""
        elif after:
            yield f"{first}{code[start : after[0]].rstrip()}{mark}"
            start, first = after[0] + 1, hanging
        else:
            break
    yield first + code[start:]


def _read(line: str, quote: str, depth: int, form: Form) -> _Read:
    """Read one line; `quote` and `depth` are what the line before left open."""
    spaces, commas = list[int](), list[int]()
    is_python, left_open = form == "python", ""
    for part in _PARTS.finditer(quote + line):
        kind, at = part.lastgroup, part.start() - len(quote)
        if kind == "remark" and not part[0].startswith(_DIRECTIVES):
            return _Read(tuple(spaces), tuple(commas), at, "", depth)
        if kind == "quoted":
            left_open = "" if _CLOSED.fullmatch(part[0]) else part[0][0]
            commas += [at + place for place, letter in enumerate(part[0]) if letter == "," and part[0][0] == '"']
        elif kind == "bracket":
            depth += 1 if part[0] in "([{" else -1
        elif kind == "comma":
            commas.append(at)
        elif kind == "space" and (not is_python or (depth and line[at - 1] == ",")):
            spaces.append(at)
    return _Read(tuple(spaces), tuple(commas), None, left_open, depth)
