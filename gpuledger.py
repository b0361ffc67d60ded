"""The command `gpuledger`: a table of subcommands, each imported when it is called."""

# ruff: noqa: E402
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_ROOMS = os.path.join(_HERE, "rooms")  # noqa: PTH118  where we are installed; a checkout has them beside this file
sys.path.insert(0, _ROOMS if os.path.isdir(_ROOMS) else _HERE)  # noqa: PTH112

from agent import child

child.keep_apart()

from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent.errors import AgentError
from agent.errors import ConfigError as AgentConfigError
from agent.version import installed_version
from analyzer.errors import AnalyzerError
from analyzer.errors import ConfigError as AnalyzerConfigError
from collector.errors import CollectorError
from collector.errors import ConfigError as CollectorConfigError

USAGE, WORLD, INTERRUPTED, PIPE_CLOSED = 2, 3, 130, 141  # exit codes; the last two are 128 + the signal
OTHERS = 0o077  # the rights of everybody else

# What an installation lacks, by the lock that brings it. No hint installs us by name: an index gives that to
# whoever asks first.
_LOCK_OF = {
    "numpy": "requirements.lock",
    "mcp": "requirements-full.lock",
    "grpc": "requirements-kubernetes.lock",
    "psycopg": "requirements-fleet.lock",
}
_SERVERS_PYTHON = (3, 11)  # the agent and what reads a host run on 3.10 too


class Command(NamedTuple):  # no dataclass: what makes those takes a seventh of the start
    """One subcommand. `target` is module:function; the function takes the arguments and returns the exit code."""

    name: str
    target: str
    help: str

    def load(self) -> Callable[[list[str]], int]:
        """Import the module and return the function."""
        module, _, function = self.target.partition(":")
        loaded: Callable[[list[str]], int] = getattr(child.load(module), function)
        return loaded


GROUPS: dict[str, tuple[Command, ...]] = {
    "try it": (
        Command("demo", "dashboards.cli.cli:demo", "a simulated site through the real pipeline; no GPU needed"),
        Command("run", "agent.cli.agent:run", "profile one command here: gpuledger run -- python train.py"),
    ),
    "collect": (
        Command("agent", "agent.cli.agent:agent", "sample this host, keep what cannot be sent, serve /metrics"),
        Command("serve", "dashboards.cli.cli:serve", "collector, analyzer and pages in one process"),
        Command("import", "collector.cli.serve:import_", "bring telemetry from Parquet, CSV or Arrow files"),
        Command(
            "import prometheus",
            "analyzer.interfaces.onboarding.cli:import_prometheus",
            "last month's ledger, nothing installed",
        ),
        Command("import slurm", "collector.cli.history:import_slurm", "who held which GPUs, from Slurm's accounting"),
    ),
    "read": (
        Command(
            "report", "analyzer.interfaces.cli.report:report", "the ledger of a week, a run or a recording; traffic"
        ),
        Command("top", "analyzer.interfaces.live.cli:top", "the fleet or a host now: who holds GPUs, at what price"),
        Command("top agent", "agent.cli.top:top", "the GPUs of this host now, from its agent alone"),
        Command("findings", "analyzer.interfaces.cli.report:findings", "what was avoidable, sorted by money"),
        Command("findings explain", "analyzer.interfaces.cli.report:findings_explain", "the same as explain"),
        Command(
            "explain",
            "analyzer.interfaces.cli.report:explain",
            "one finding: its evidence, and what would prove it wrong",
        ),
        Command(
            "compare",
            "analyzer.interfaces.cli.report:compare",
            "two runs, two recordings, or a name before and after a date",
        ),
        Command("assistant", "analyzer.interfaces.mcp.cli:assistant", "read-only tools for an assistant, by MCP"),
    ),
    "plan": (
        Command(
            "plan", "analyzer.interfaces.cli.planner:plan", "can it be done by Friday: where and when each task runs"
        ),
    ),
    "act": (
        Command(
            "findings judge", "analyzer.interfaces.cli.feedback:judge", "say that a finding is right, wrong or planned"
        ),
        Command(
            "findings mute", "analyzer.interfaces.cli.feedback:mute", "leave a finding out of the list until a date"
        ),
        Command("recommend", "analyzer.interfaces.cli.report:recommend", "what to move or change, and what it saves"),
        Command("show", "analyzer.interfaces.cli.report:show", "one recommendation, with the lines to paste"),
        Command(
            "accept",
            "analyzer.interfaces.cli.recommendation_lifecycle:accept",
            "say that a recommendation is to be done, or was done",
        ),
        Command(
            "reject",
            "analyzer.interfaces.cli.recommendation_lifecycle:reject",
            "say that a recommendation is not to be done, and why",
        ),
        Command("savings", "analyzer.interfaces.cli.report:savings", "what came of it: predicted against realised"),
    ),
    "money": (
        Command(
            "prices",
            "analyzer.interfaces.cli.prices:prices",
            "the price book; prices check finds stale and missing rows",
        ),
        Command("prices charges", "analyzer.interfaces.cli.charges:charges", "what teams are charged, beside the bill"),
        Command(
            "prices costs",
            "analyzer.interfaces.cli.non_gpu_costs:costs",
            "energy, carbon, network and storage of a period",
        ),
        Command("prices import", "analyzer.interfaces.cli.price_import:bring", "a catalogue's rows as a price file"),
        Command(
            "budgets",
            "analyzer.interfaces.cli.report:budgets",
            "what teams may spend a month, and where the month will end",
        ),
        Command(
            "prices reconcile",
            "analyzer.interfaces.cli.reconcile:prices_reconcile",
            "the ledger against an invoice in FOCUS",
        ),
        Command(
            "prices import focus",
            "analyzer.interfaces.cli.reconcile:import_focus",
            "what a bill in FOCUS says a GPU-hour costs",
        ),
        Command("export focus", "analyzer.interfaces.cli.focus:focus", "the ledger as a bill in FOCUS 1.2 or 1.4"),
        Command("export csv", "analyzer.interfaces.cli.focus:csv", "the ledger's rows by day, team, run and state"),
        Command("teams", "analyzer.interfaces.cli.prices:teams", "teams check lists the runs that map to no team"),
    ),
    "ask for more": (
        Command(
            "size", "analyzer.interfaces.cli.sizing:size", "memory and price of a model: to serve, to tune, to train"
        ),
        Command(
            "profile",
            "analyzer.interfaces.cli.capacity_profile:profile",
            "what a team's GPUs really do, as one signed file",
        ),
        Command(
            "profile verify",
            "analyzer.interfaces.cli.capacity_profile:verify",
            "whose profile a file is, and whether it was edited",
        ),
        Command(
            "profile key",
            "analyzer.interfaces.cli.capacity_profile:key",
            "the public key that others trust profiles by",
        ),
        Command(
            "gate",
            "analyzer.interfaces.cli.capacity_gate:gate",
            "may there be more GPUs: a request, its profile, the gates",
        ),
        Command(
            "gate waive",
            "analyzer.interfaces.cli.capacity_gate:waive",
            "waive one gate of a kept request, with a reason",
        ),
        Command(
            "gate list", "analyzer.interfaces.cli.capacity_gate:list_", "the requests that were asked, the newest first"
        ),
        Command(
            "gate show",
            "analyzer.interfaces.cli.capacity_gate:show",
            "one request: its gates, the other offer, its history",
        ),
    ),
    "keep it right": (
        Command("access", "collector.cli.access:access", "keys of hosts, people and programs; who read what"),
        Command("analyze", "analyzer.interfaces.cli.analyze:analyze", "book the hours whose inputs have changed, once"),
        Command("doctor", "analyzer.interfaces.doctor.cli:doctor", "check the ledger's invariants on a store"),
        Command("mail", "analyzer.interfaces.mail.cli:mail", "the weekly e-mail: what was sent, waits, was refused"),
        Command(
            "alarms",
            "analyzer.interfaces.alarms.cli:alarms",
            "what Alertmanager and the webhook were told, and what waits",
        ),
        Command("alarms test", "analyzer.interfaces.alarms.cli:alarms_test", "send a test to everybody who is told"),
        Command(
            "lake check",
            "collector.cli.lake:check",
            "read the lake's files, and name what is damaged",
        ),
        Command("lake aside", "collector.cli.lake:aside", "put damaged files back from a backup, or go on without"),
        Command("probe", "collector.http.probe:main", "is the server here ready: exit code 0, or 1 and why not"),
        Command("probe agent", "agent.top.probe:main", "does the agent here beat: exit code 0, or 1 and why not"),
        Command("backup", "analyzer.interfaces.backups.cli:backup", "copy a store while it is written"),
        Command(
            "backup verify",
            "analyzer.interfaces.backups.cli:verify",
            "read a backup whole, and hold it to the invariants",
        ),
        Command("restore", "analyzer.interfaces.backups.cli:restore", "make a store of a backup"),
        Command("doctor agent", "agent.cli.doctor:doctor", "what this host can measure, and what leaves it"),
    ),
}

COMMANDS: dict[str, Command] = {command.name: command for group in GROUPS.values() for command in group}


def overview() -> str:
    """Return what `gpuledger --help` prints."""
    lines = ["usage: gpuledger COMMAND [ARGUMENTS]", "", "Every GPU-second of a fleet, accounted for."]
    for title, commands in GROUPS.items():
        lines += ["", title, *(f"  {command.name:<18} {command.help}" for command in commands)]
    lines += [
        "",
        "gpuledger COMMAND --help says more. Exit codes: 1 a check failed, 2 wrong",
        "usage or settings, 3 the world failed.",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None, commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run one subcommand and return its exit code: 2 for wrong usage or settings, 3 where the world failed."""
    arguments = sys.argv[1:] if argv is None else argv
    # The longest name counts: doctor agent needs less installed than doctor.
    words = next((count for count in (3, 2) if " ".join(arguments[:count]) in commands), 1)
    name = " ".join(arguments[:words]) or "--help"
    if name in ("-h", "--help", "help"):
        print(overview())
        return 0 if arguments else USAGE
    if name == "--version":
        print(f"gpuledger {installed_version() or '(a checkout that is not installed)'}")
        return 0
    if name not in commands:
        return _fail(f"there is no command {name!r}{_nearest(name, commands)} gpuledger --help lists them", USAGE)
    return _call(commands[name], arguments[words:])


def _call(command: Command, arguments: list[str]) -> int:
    from agent.log_format import install as log_without_carets  # not for --version and --help

    log_without_carets()
    if sentence := too_old(command, sys.version_info[:2]):
        return _fail(sentence, USAGE)
    mask = _umask(command)
    try:
        return command.load()(arguments)
    except (AgentConfigError, CollectorConfigError, AnalyzerConfigError) as error:
        return _fail(str(error), USAGE)
    except (AgentError, CollectorError, AnalyzerError) as error:
        return _fail(str(error), WORLD)
    except ModuleNotFoundError as error:
        return _fail(_missing(command, error), USAGE)
    except BrokenPipeError:
        # The reader (head, less) has left. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        os.umask(mask)


def _umask(command: Command) -> int:
    """Let a command write for its own user alone, and return the umask that was: DuckDB makes its files by that.

    Names of people and money are in stores and reports. The agent has none, hosts' users read what it writes, and
    `run` hands its umask on to somebody's command.
    """
    mask = os.umask(OTHERS)
    if command.target.startswith("agent."):
        os.umask(mask)
    return mask


def too_old(command: Command, python: tuple[int, int]) -> str | None:
    """Say what Python a command needs, where this one is older."""
    if python >= _SERVERS_PYTHON or command.target.startswith("agent."):
        return None
    return f"gpuledger {command.name} needs Python 3.11 or newer, and this is {'.'.join(map(str, python))}"


def _missing(command: Command, error: ModuleNotFoundError) -> str:
    """Name what brings the module; one of our own missing is our mistake and is raised again."""
    module = (error.name or "").partition(".")[0]
    if module in ("", "agent", "analyzer", "collector", "dashboards", "simulator"):
        raise error
    lock = _LOCK_OF.get(module, "requirements-server.lock")
    return f"gpuledger {command.name} needs {module}, which is not here: pip install --require-hashes -r {lock}"


def _nearest(name: str, commands: Mapping[str, Command]) -> str:
    if family := [each for each in commands if each.startswith(f"{name} ")]:
        return f": it is {' or '.join(family)};"
    from difflib import get_close_matches  # for what is mistyped alone

    near = get_close_matches(name, commands, n=1)
    return f", did you mean {near[0]!r}?" if near else ";"


def _fail(message: str, code: int) -> int:
    print(f"gpuledger: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
