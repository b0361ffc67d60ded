"""Write the manual page and the completion of shells from the parsers: python .ci/manual.py FOLDER; `make manual`.

The folder is laid out as share/ below a prefix, where `make wheel` puts it. Each command is asked for its --help,
and its parser is taken there: nothing is written down twice.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agent.cli.agent import WORDS  # noqa: E402
from gpuledger import COMMANDS  # noqa: E402


class TakenError(BaseException):
    """Carries the parser that was asked for its help; nothing of ours catches it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


@dataclass(frozen=True)
class Option:
    """A flag, or a word that a command takes."""

    flags: tuple[str, ...]
    value: str  # what stands for its value; empty where it takes none
    choices: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Page:
    """One command as its parser has it."""

    name: str
    about: str
    more: str
    options: tuple[Option, ...]

    @property
    def flags(self) -> tuple[Option, ...]:
        """Those that begin with a dash."""
        return tuple(option for option in self.options if option.flags)

    @property
    def words(self) -> tuple[Option, ...]:
        """The others."""
        return tuple(option for option in self.options if not option.flags)


def pages() -> list[Page]:
    """Return every command, in the order of --help."""
    named: list[tuple[str, Callable[[list[str]], int], list[str], str]] = [
        (name, command.load(), [], command.help) for name, command in COMMANDS.items()
    ]
    agent = COMMANDS["agent"].load()
    named += [(f"agent {word}", agent, [word], "") for word in WORDS]
    return [
        page for name, function, words, about in named for page in _with_parts(name, _parser(function, words), about)
    ]


def _with_parts(name: str, parser: argparse.ArgumentParser, about: str) -> Iterator[Page]:
    """Yield a command, and those that its parser has within."""
    yield _page(name, parser, about)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, part in action.choices.items():
                yield from _with_parts(f"{name} {word}", part, "")


def _parser(function: Callable[[list[str]], int], words: list[str]) -> argparse.ArgumentParser:
    def take(parser: argparse.ArgumentParser, _: object = None) -> None:
        raise TakenError(parser)

    with patch.object(argparse.ArgumentParser, "print_help", take):
        try:
            function([*words, "--help"])
        except TakenError as taken:
            return taken.parser
    raise SystemExit(f"{function} has no parser")


def _page(name: str, parser: argparse.ArgumentParser, about: str) -> Page:
    description = " ".join((parser.description or about).split())
    return Page(name, about or description, description, tuple(_options(parser)))


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        takes = action.nargs != 0
        choices = tuple(str(choice) for choice in action.choices or ())
        value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        value = "|".join(choices) if choices and not isinstance(action.metavar, str) else value
        about = formatter._expand_help(action) if action.help else ""
        yield Option(tuple(action.option_strings), value if takes else "", choices, " ".join(about.split()))


# The manual page.


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in ".'" else escaped


def manual(found: list[Page]) -> str:
    """Return gpuledger(1)."""
    lines = [
        '.\\" Made from the parsers by make manual.',
        '.TH GPULEDGER 1 "" gpuledger "User Commands"',
        ".SH NAME",
        "gpuledger \\- every GPU\\-second of a fleet, accounted for",
        ".SH SYNOPSIS",
        ".B gpuledger",
        "\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        "Agents on GPU hosts sample GPUs and what feeds them, a collector keeps the samples, an analyzer books every",
        "second of every GPU that the fleet owns to one state with a cause, a holder and a price.",
        "Every command has \\fB\\-\\-help\\fR.",
        ".SH COMMANDS",
    ]
    for page in found:
        usage = " ".join(["[\\fIOPTIONS\\fR]", *(f"\\fI{_roff(option.value)}\\fR" for option in page.words)])
        lines += [
            f".SS gpuledger {_roff(page.name)}",
            f".B gpuledger {_roff(page.name)}",
            usage,
            ".PP",
            _roff(page.more),
        ]
        for option in page.options:
            named = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in option.flags)
            value = f"\\fI{_roff(option.value)}\\fR" if option.value else ""
            lines += [".TP", " ".join(part for part in (named, value) if part), _roff(option.about) or "\\&"]
    lines += [
        ".SH EXIT STATUS",
        *_terms(
            ("0", "done"),
            ("1", "a check failed"),
            ("2", "wrong usage or settings"),
            ("3", "a failure of the environment: disk, network, store"),
        ),
        ".PP",
        "\\fBgpuledger run\\fR returns the command's own status.",
        ".SH ENVIRONMENT",
        *_terms(
            ("GPULEDGER_AGENT_…, GPULEDGER_COLLECTOR_…", "a setting of the file, over it"),
            ("GPULEDGER_TOKEN", "the key that is shown to --server"),
        ),
        ".SH FILES",
        *_terms(("/etc/gpuledger/gpuledger.toml", "settings")),
    ]
    return "\n".join(lines) + "\n"


def _terms(*terms: tuple[str, str]) -> list[str]:
    return [line for term, about in terms for line in (".TP", f"\\fB{_roff(term)}\\fR", _roff(about))]


# Completion. Each shell gets three tables: the words that may follow, the flags of a command, the values of a flag.


def _next_words(found: list[Page]) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {"": []}
    for page in found:
        parts = page.name.split()
        for count in range(len(parts)):
            words = following.setdefault(" ".join(parts[:count]), [])
            if parts[count] not in words:
                words.append(parts[count])
        following.setdefault(page.name, [])
        following[page.name] += [choice for option in page.words for choice in option.choices]
    return following


def _cases(table: dict[str, list[str]]) -> list[str]:
    return [f"    {_quoted(key)}) echo {_quoted(' '.join(words))} ;;" for key, words in table.items() if words]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _tables(found: list[Page]) -> list[str]:
    flags = {page.name: ["--help", *(flag for option in page.flags for flag in option.flags)] for page in found}
    values: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    for page in found:
        for option in page.flags:
            for flag in option.flags:
                key = f"{page.name} {flag}"
                (values if option.choices else files)[key] = list(option.choices) or (["file"] if option.value else [])
    return [
        "__gpuledger_words() {", "  case $1 in", *_cases(_next_words(found)), "  esac", "}",
        "__gpuledger_flags() {", "  case $1 in", *_cases(flags), "  esac", "}",
        "__gpuledger_values() {", "  case $1 in", *_cases(values), *_cases(files), "  esac", "}",
        "# The longest command that the words begin with.",
        "__gpuledger_command() {",
        "  local found= try= word",
        "  for word in \"$@\"; do",
        "    try=\"${try:+$try }$word\"",
        "    [ -n \"$(__gpuledger_flags \"$try\")\" ] && found=$try",
        "  done",
        "  echo \"$found\"",
        "}",
    ]  # fmt: skip


def bash(found: list[Page]) -> str:
    """Return the script for bash."""
    lines = [
        "# Completion of gpuledger for bash; made from the parsers by make manual.",
        *_tables(found),
        "_gpuledger() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command values",
        '  command=$(__gpuledger_command "${COMP_WORDS[@]:1:COMP_CWORD-1}")',
        '  values=$(__gpuledger_values "$command $prev")',
        "  COMPREPLY=()",
        '  if [ "$values" = file ]; then',
        "    compopt -o default 2>/dev/null",
        '  elif [ -n "$values" ]; then',
        '    COMPREPLY=($(compgen -W "$values" -- "$cur"))',
        '  elif [ "${cur#-}" != "$cur" ]; then',
        '    COMPREPLY=($(compgen -W "$(__gpuledger_flags "$command")" -- "$cur"))',
        "  else",
        '    COMPREPLY=($(compgen -W "$(__gpuledger_words "$command")" -- "$cur"))',
        '    [ -n "$command" ] && compopt -o default 2>/dev/null',
        "  fi",
        "}",
        "complete -F _gpuledger gpuledger",
    ]
    return "\n".join(lines) + "\n"


def zsh(found: list[Page]) -> str:
    """Return the function for zsh."""
    lines = [
        "#compdef gpuledger",
        "# Completion of gpuledger for zsh; made from the parsers by make manual.",
        *_tables(found),
        "_gpuledger() {",
        "  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} command values",
        '  command=$(__gpuledger_command "${(@)words[2,CURRENT-1]}")',
        '  values=$(__gpuledger_values "$command $prev")',
        "  if [[ $values = file ]]; then",
        "    _files",
        "  elif [[ -n $values ]]; then",
        "    compadd -- ${=values}",
        "  elif [[ $cur = -* ]]; then",
        '    compadd -- ${=$(__gpuledger_flags "$command")}',
        "  else",
        '    compadd -- ${=$(__gpuledger_words "$command")}',
        "    [[ -n $command ]] && _files",
        "  fi",
        "}",
        '[[ $funcstack[1] = _gpuledger ]] && _gpuledger "$@"',
        "(( $+functions[compdef] )) && compdef _gpuledger gpuledger",
        "true",
    ]
    return "\n".join(lines) + "\n"


def fish(found: list[Page]) -> str:
    """Return the script for fish."""
    names = " ".join(_quoted(page.name) for page in found)
    lines = [
        "# Completion of gpuledger for fish; made from the parsers by make manual.",
        "function __gpuledger_command",
        "    set -l words (commandline -opc)[2..-1]",
        "    for count in 3 2 1",
        "        set -q words[$count]; or continue",
        "        set -l try (string join -- ' ' $words[1..$count])",
        f"        contains -- $try {names}; and echo $try; and return",
        "    end",
        "end",
        "function __gpuledger_is",
        "    test \"$(__gpuledger_command)\" = \"$argv\"",
        "end",
        "function __gpuledger_words_are",
        "    test \"$(string join -- ' ' (commandline -opc)[2..-1])\" = \"$argv\"",
        "end",
    ]  # fmt: skip
    for before, words in _next_words(found).items():
        if words:
            lines.append(f"complete -c gpuledger -n '__gpuledger_words_are {before}' -a {_quoted(' '.join(words))}")
    for page in found:
        for option in page.flags:
            named = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            takes = f" -xa {_quoted(' '.join(option.choices))}" if option.choices else " -r" if option.value else ""
            about = _quoted(option.about.partition("; ")[0][:80])
            lines.append(f"complete -c gpuledger -n '__gpuledger_is {page.name}' {named}{takes} -d {about}")
    return "\n".join(lines) + "\n"


FILES = {
    "man/man1/gpuledger.1": manual,
    "bash-completion/completions/gpuledger": bash,
    "zsh/site-functions/_gpuledger": zsh,
    "fish/vendor_completions.d/gpuledger.fish": fish,
}


def main(argv: list[str]) -> int:
    """Write the files below a folder."""
    found = pages()
    for name, make in FILES.items():
        path = Path(argv[0]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
