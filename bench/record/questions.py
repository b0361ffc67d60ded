"""The questions to the command line: every command, in every format that it offers, with the demo's names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuledger import COMMANDS

WEEK = "2026-W46"
DIMENSIONS = ("team", "user", "project", "model", "stage", "queue", "node-group", "run")

# The arguments with which each command reads the demo's store; {…} are the subject's names. Nothing stands here that
# needs another server, a GPU or a terminal: UNASKED names those, and their help is kept all the same.
READS: dict[str, tuple[str, ...]] = {
    "report": (
        WEEK,
        *(f"{WEEK} --by {one}" for one in DIMENSIONS),
        f"{WEEK} --team team-nlp",
        f"{WEEK} --width 60",
        "--since 2d",
    ),
    "report team": (f"team-nlp {WEEK}",),
    "report run": ("pretrain-7b", "llm-serve", "pretrain-7b --traffic"),
    "report traffic": (WEEK, f"{WEEK} --team team-nlp"),
    "bill month": ("2026-11", "2026-11 --by team", "2026-10"),
    "bill units": (WEEK,),
    "bill anomalies": (WEEK,),
    "capacity demand": (WEEK,),
    "capacity portfolio": (WEEK,),
    "runs": (WEEK, f"{WEEK} --sort avoidable --top 5", f"{WEEK} --team team-nlp"),
    "top": ("--once", "--once --node n04", "--once --sort gpus"),
    "findings": ("", "--all", "--unjudged", "--sure high", "--team team-nlp", "--check"),
    "findings explain": ("{finding}",),
    "runs compare": ("pretrain-7b llm-serve",),
    "recommendations": ("", "--all", "--team team-nlp"),
    "recommendations show": ("{recommendation}",),
    "recommendations savings": ("",),
    "bill prices": ("list", "list --all", "check"),
    "bill charges": (WEEK, f"{WEEK} --by cost-centre", f"{WEEK} --csv"),
    "bill costs": (WEEK,),
    "bill budgets": ("2026-11",),
    "bill teams": ("check",),
    "capacity size": ("llama-3-8b --for inference", "llama-3-70b --for full"),
    "capacity plan": ("{folder}/tasks.yaml --solver heft",),
    "capacity profile": ("--team team-nlp",),
    "capacity request list": ("",),
    "admin access": ("list",),
    "admin doctor": ("",),
    "admin mail": ("",),
    "admin alarms": ("",),
    "admin lake check": ("",),
}
# Asked once, for their format is said or is no matter.
ONCE: dict[str, tuple[str, ...]] = {
    "report": (f"{WEEK} --mail --dry-run --out {{folder}}/written/mails",),
    "report run": ("no-such-run",),
    "findings explain": ("f-nothere",),
    "recommendations": ("--schema",),
    "recommendations show": ("r-nothere",),
    "bill focus": (
        f"--since {WEEK} --out {{folder}}/written/focus-1.2.csv",
        f"--since {WEEK} --version 1.4 --by hour --energy --out {{folder}}/written/focus-1.4.csv",
        f"--since {WEEK} --format parquet --out {{folder}}/written/focus.parquet",
    ),
    "bill csv": (f"--since {WEEK} --out {{folder}}/written/ledger.csv",),
}
CHANGES: dict[str, str] = {  # asked in this order of a copy of the store, after all else
    "admin analyze": "",
    "findings judge": "{finding} right --because tried",
    "findings mute": "{finding} --until 2026-12-01 --because later",
    "recommendations accept": "{recommendation} --because agreed",
    "recommendations reject": "{other_recommendation} --because unwanted",
    "admin access": "audit",
}
UNASKED: dict[str, str] = {
    "demo": "the record's own store is made by it",
    "run": "measures this machine",
    "agent": "measures this machine",
    "report recording": "needs a recording, which measures this machine",
    "serve": "its routes and pages are asked",
    "import": "needs files, and tests/importing holds what it says",
    "import prometheus": "needs another server",
    "import slurm": "needs Slurm's output",
    "admin slurm": "needs a Slurm to write to",
    "agent top": "measures this machine",
    "assistant": "its tools are asked",
    "bill prices import": "needs a catalogue",
    "bill reconcile": "needs an invoice",
    "bill prices import focus": "needs an invoice",
    "capacity profile verify": "needs a signed file, which has a key of its own each time",
    "capacity profile key": "a key of its own each time",
    "capacity quotas": "needs files of quotas, which the demo's site has none of",
    "capacity request": "needs a signed file",
    "capacity request override": "needs a kept request",
    "capacity request show": "needs a kept request",
    "admin alarms test": "needs somebody who is told",
    "admin lake aside": "needs a damaged lake",
    "admin backup": "its folders are named by time",
    "admin backup verify": "needs a backup",
    "admin restore": "needs a backup",
    "agent doctor": "measures this machine",
    "admin probe": "asks a server that runs",
    "agent probe": "asks an agent that runs",
}

_FORMATS = re.compile(r"--format\s+\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Question:
    """One call of the command line. `words` may hold {names} of the subject; a group is asked in one process."""

    name: str
    words: tuple[str, ...]
    group: str


def forgotten() -> list[str]:
    """Return the commands that stand in none of the tables: a new command is to be asked, or said why not."""
    asked = {next(name for name in _longest(read) if name in COMMANDS) for read in [*READS, *ONCE, *CHANGES, *UNASKED]}
    return sorted(set(COMMANDS) - asked)


def helps(subcommands: dict[str, tuple[str, ...]]) -> Iterator[Question]:
    """Yield what asks each command, and each part of one, for its help."""
    yield Question("help", ("--help",), "help")
    for name in COMMANDS:
        for part in ("", *subcommands.get(name, ())):
            yield Question(f"help {name} {part}".strip(), (*name.split(), *part.split(), "--help"), "help")


def reads(help_of: dict[str, str]) -> Iterator[Question]:
    """Yield each reading in each format that its help offers. `help_of` maps a command's words to its help."""
    for name, calls in READS.items():
        found = _FORMATS.search(help_of.get(name, ""))
        formats = [f"--format {one}" for one in "".join(found[1].split()).split(",")] if found else [""]
        if not found and "--json" in help_of.get(name, ""):
            formats.append("--json")
        for call in calls:
            for form in formats:
                yield _question(f"{name} {call}", name, call, form)
    for name, calls in ONCE.items():
        for call in calls:
            yield _question(f"{name} once", name, call)


def of_a_server(help_of: dict[str, str], url: str) -> Iterator[Question]:
    """Yield each reading, asked of a server, where its help offers that."""
    for name, calls in READS.items():
        if "--server" in help_of.get(name, ""):
            for call in calls:
                here = _question(name, name, call)
                yield Question(here.name, (*here.words, "--server", url), name)


def _question(group: str, *parts: str) -> Question:
    words = " ".join(parts).split()
    return Question(" ".join(words), tuple(words), group)


def changes() -> Iterator[Question]:
    """Yield what writes into a store, in order."""
    for name, call in CHANGES.items():
        yield _question("changes", name, call)


def _longest(name: str) -> Iterator[str]:
    words = name.split()
    for count in range(len(words), 0, -1):
        yield " ".join(words[:count])
