"""The command `gpuledger`: a table of subcommands, each imported when it is called."""

# ruff: noqa: E402
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_ROOMS = os.path.join(_HERE, "rooms")  # noqa: PTH118  where we are installed; a checkout has them beside this file
sys.path.insert(0, _ROOMS if os.path.isdir(_ROOMS) else _HERE)  # noqa: PTH112

from agent import child

child.keep_apart()

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from agent.child import installed_version
from agent.errors import AgentError
from agent.errors import ConfigError as AgentConfigError
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
_LONGEST = 4  # words of a command's name
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


_COMMANDS = (  # name, module:function, help
    ("demo", "dashboards.cli:demo", "a simulated site through the real pipeline; no GPU needed"),
    ("run", "agent.cli.agent:run", "profile one command on this machine"),
    ("agent", "agent.cli.agent:agent", "sample this host, spool what cannot be sent, serve /metrics"),
    ("agent top", "agent.cli.top:top", "the GPUs of this host now, from its agent only"),
    ("agent doctor", "agent.cli.doctor:doctor", "what this host can measure, and what it sends"),
    ("agent probe", "agent.cli.top:main", "is the agent here taking readings: exit code 0, or 1 and why not"),
    ("serve", "dashboards.cli:serve", "collector, analyzer and pages in one process"),
    ("import", "collector.cli.imports:import_", "telemetry from tables, and from logs of GPUs"),
    (
        "import prometheus",
        "analyzer.interfaces.onboarding.cli:import_prometheus",
        "a ledger of last month, without installing agents",
    ),
    ("import slurm", "collector.cli.imports:import_slurm", "which jobs held which GPUs, from Slurm accounting"),
    ("report", "analyzer.interfaces.cli.report:report", "where the time and money of a period or a log went"),
    ("report run", "analyzer.interfaces.cli.report:report_run", "one run: why it was slow, what it cost"),
    ("report team", "analyzer.interfaces.cli.report:report_team", "the report of one team"),
    ("report traffic", "analyzer.interfaces.cli.report:report_traffic", "network traffic by run and distance"),
    (
        "report recording",
        "analyzer.interfaces.cli.recording:report_recording",
        "a recording of gpuledger run, without a store",
    ),
    ("runs", "analyzer.interfaces.cli.report:runs", "the runs of a period, the most expensive first"),
    (
        "runs compare",
        "analyzer.interfaces.cli.report:compare",
        "two runs, two recordings, or a name before and after a date",
    ),
    ("findings", "analyzer.interfaces.cli.report:findings", "avoidable waste, the most expensive first"),
    (
        "findings explain",
        "analyzer.interfaces.cli.report:findings_explain",
        "one finding: its evidence, and when it is wrong",
    ),
    ("findings judge", "analyzer.interfaces.cli.decisions:judge", "mark a finding as right, wrong or planned"),
    ("findings mute", "analyzer.interfaces.cli.decisions:mute", "hide a finding from the list until a date"),
    ("recommendations", "analyzer.interfaces.cli.report:recommendations", "what to change, and the estimated savings"),
    (
        "recommendations show",
        "analyzer.interfaces.cli.report:recommendations_show",
        "one recommendation, with the lines to paste",
    ),
    (
        "recommendations accept",
        "analyzer.interfaces.cli.decisions:accept",
        "accept a recommendation, or mark it as applied",
    ),
    ("recommendations reject", "analyzer.interfaces.cli.decisions:reject", "reject a recommendation, with a reason"),
    ("recommendations savings", "analyzer.interfaces.cli.report:savings", "predicted and realized savings"),
    ("top", "analyzer.interfaces.live.cli:top", "the fleet or a host now: who holds GPUs, at what cost"),
    ("bill prices", "analyzer.interfaces.cli.prices:prices", "the price list; check finds stale and missing rows"),
    ("bill prices import", "analyzer.interfaces.cli.prices:bring", "convert a price catalog to a price file"),
    (
        "bill prices import focus",
        "analyzer.interfaces.cli.bills:import_focus",
        "price per GPU-hour from a bill in FOCUS",
    ),
    ("bill teams", "analyzer.interfaces.cli.prices:teams", "team mapping; check lists the runs without a team"),
    ("bill charges", "analyzer.interfaces.cli.prices:charges", "what teams are charged, next to their cost"),
    ("bill costs", "analyzer.interfaces.cli.prices:costs", "energy, carbon, network and storage of a period"),
    ("bill budgets", "analyzer.interfaces.cli.report:budgets", "monthly budgets and forecast by team"),
    ("bill month", "analyzer.interfaces.cli.report:bill_month", "a month's spend to date, and its forecast"),
    ("bill units", "analyzer.interfaces.cli.report:bill_units", "cost per token, sample, step and request"),
    ("bill anomalies", "analyzer.interfaces.cli.report:bill_anomalies", "days that cost more than usual"),
    ("bill reconcile", "analyzer.interfaces.cli.bills:prices_reconcile", "the ledger against an invoice in FOCUS"),
    ("bill focus", "analyzer.interfaces.cli.bills:focus", "the ledger as a bill in FOCUS 1.2 or 1.4"),
    ("bill csv", "analyzer.interfaces.cli.bills:csv", "the ledger's rows by day, team, run and state"),
    (
        "capacity plan",
        "analyzer.interfaces.cli.planner:plan",
        "schedule tasks on GPUs: where, when, and by which deadline",
    ),
    (
        "capacity size",
        "analyzer.interfaces.cli.sizing:size",
        "GPU memory and price of a model: serving, tuning, training",
    ),
    (
        "capacity demand",
        "analyzer.interfaces.cli.report:capacity_demand",
        "requested GPUs, and how many to own, reserve and rent",
    ),
    (
        "capacity quotas",
        "analyzer.interfaces.cli.report:capacity_quotas",
        "who waits while whose guaranteed GPUs are unused",
    ),
    ("capacity portfolio", "analyzer.interfaces.cli.report:capacity_portfolio", "which workloads use their GPUs well"),
    (
        "capacity profile",
        "analyzer.interfaces.cli.capacity_profile:profile",
        "a team's measured GPU usage, as one signed file",
    ),
    (
        "capacity profile verify",
        "analyzer.interfaces.cli.capacity_profile:verify",
        "who signed a profile, and whether it was edited",
    ),
    (
        "capacity profile key",
        "analyzer.interfaces.cli.capacity_profile:key",
        "the public key for verifying your profiles",
    ),
    (
        "capacity request",
        "analyzer.interfaces.cli.capacity_gate:gate",
        "check a request for more GPUs against the policy",
    ),
    ("capacity request list", "analyzer.interfaces.cli.capacity_gate:list_", "requests, the newest first"),
    (
        "capacity request show",
        "analyzer.interfaces.cli.capacity_gate:show",
        "one request: its checks, the alternative, its history",
    ),
    (
        "capacity request override",
        "analyzer.interfaces.cli.capacity_gate:waive",
        "override one check of a request, with a reason",
    ),
    ("admin access", "collector.cli.access:access", "keys of hosts, people and programs; audit log"),
    ("admin analyze", "analyzer.interfaces.cli.analyze:analyze", "bring the ledger up to date"),
    (
        "admin slurm",
        "analyzer.interfaces.cli.analyze:slurm",
        "write what each ended job cost and lost into its AdminComment",
    ),
    ("admin doctor", "analyzer.interfaces.doctor.cli:doctor", "check ledger, store, agents, disk, keys, jobs and mail"),
    ("admin mail", "analyzer.interfaces.mail.cli:mail", "delivery status of the weekly e-mail"),
    ("admin alarms", "analyzer.interfaces.alarms.cli:alarms", "active alarms, and what waits for delivery"),
    ("admin alarms test", "analyzer.interfaces.alarms.cli:alarms_test", "send a test alarm to every receiver"),
    ("admin lake check", "collector.cli.lake:check", "read all files of the lake, and list damaged ones"),
    ("admin lake aside", "collector.cli.lake:aside", "restore damaged files from a backup, or set them aside"),
    ("admin probe", "collector.http.probe:main", "is the local server ready: exit code 0, or 1 and why not"),
    ("admin backup", "analyzer.interfaces.cli.backups:backup", "back up a store, also while it is served"),
    ("admin backup verify", "analyzer.interfaces.cli.backups:verify", "verify all files and invariants of a backup"),
    ("admin restore", "analyzer.interfaces.cli.backups:restore", "restore a store from a backup"),
    ("assistant", "analyzer.interfaces.mcp.cli:assistant", "tools for a language model, over MCP"),
)
COMMANDS: dict[str, Command] = {row[0]: Command(*row) for row in _COMMANDS}

# What `gpuledger --help` shows, a screen of it: rows of a usage and what it is for, and an empty line between thoughts.
_OVERVIEW = (
    ("demo", "a simulated site through the real pipeline; no GPU needed"),
    ("run -- CMD", "profile one command on this machine"),
    ("agent", "sample this host (daemon); its top, doctor, probe"),
    ("serve", "collector, analyzer and pages in one process (daemon)"),
    ("import FILE...", "import files, Prometheus history, Slurm accounting"),
    (),
    ("report [PERIOD]", "where the time and money went; report run ID"),
    ("runs", "list and search runs; runs compare A B"),
    ("findings", "what was lost and why; findings explain ID"),
    ("recommendations", "what to change, what it saves; show, accept, reject"),
    ("top", "the fleet now"),
    (),
    ("bill", "prices, charges, budgets, reconcile, focus"),
    ("capacity", "plan, size, profile, request"),
    ("admin", "doctor, access, backup, restore, mail, alarms, analyze"),
    ("assistant", "tools for a language model (MCP)"),
)

# Before 1.0 the commands were regrouped once; whoever types an old spelling is told the new one, and nothing is run.
RENAMED = {
    "report week": "report",
    "report month": "bill month",
    "report units": "bill units",
    "report anomalies": "bill anomalies",
    "report demand": "capacity demand",
    "report portfolio": "capacity portfolio",
    "explain": "findings explain",
    "recommend": "recommendations",
    "show": "recommendations show",
    "accept": "recommendations accept",
    "reject": "recommendations reject",
    "savings": "recommendations savings",
    "compare": "runs compare",
    "prices": "bill prices",
    "prices charges": "bill charges",
    "prices costs": "bill costs",
    "prices reconcile": "bill reconcile",
    "budgets": "bill budgets",
    "teams": "bill teams",
    "export focus": "bill focus",
    "export csv": "bill csv",
    "plan": "capacity plan",
    "size": "capacity size",
    "profile": "capacity profile",
    "gate": "capacity request",
    "gate waive": "capacity request override",
    "top agent": "agent top",
    "doctor agent": "agent doctor",
    "probe agent": "agent probe",
    "access": "admin access",
    "analyze": "admin analyze",
    "doctor": "admin doctor",
    "mail": "admin mail",
    "alarms": "admin alarms",
    "lake": "admin lake",
    "probe": "admin probe",
    "backup": "admin backup",
    "restore": "admin restore",
}


def _overview() -> str:
    """Return what `gpuledger --help` prints."""
    lines = ["gpuledger: where every GPU-second went, why, what it cost, and what to change", ""]
    lines += [f"  {row[0]:<17}{row[1]}" if row else "" for row in _OVERVIEW]
    lines += [
        "",
        "gpuledger COMMAND --help says more. Exit codes: 1 a check failed, 2 wrong",
        "usage or settings, 3 a failure of the environment (disk, network, store).",
    ]
    return "\n".join(lines)


def family(name: str, commands: Mapping[str, Command]) -> str:
    """Return the commands below a name, a line each; empty where there is none."""
    below = {each.removeprefix(f"{name} "): each for each in commands if each.startswith(f"{name} ")}
    width = max(map(len, below), default=0) + 2
    return "\n".join(f"  {short:<{width}}{commands[each].help}" for short, each in below.items())


def main(argv: list[str] | None = None, commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run one subcommand and return its exit code: 2 for wrong usage or settings, 3 where the environment failed."""
    try:
        return _run(sys.argv[1:] if argv is None else argv, commands)
    except BrokenPipeError:
        return _leave_the_pipe()
    finally:
        try:
            if sys.stdout is not None:  # closed before we began
                sys.stdout.flush()
        except BrokenPipeError:
            _leave_the_pipe()


def _run(arguments: list[str], commands: Mapping[str, Command]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else USAGE
    if arguments[0] == "--version":
        print(f"gpuledger {installed_version() or '(a checkout that is not installed)'}")
        return 0
    # The longest name counts: agent doctor needs less installed than admin doctor.
    name = next((name for name in _beginnings(arguments) if name in commands), "")
    if was := next((name for name in _beginnings(arguments) if name in RENAMED and name not in commands), ""):
        return _fail(f"{was!r} is now: gpuledger {RENAMED[was]}", USAGE)
    if name:
        rest = arguments[len(name.split()) :]
        return _help(commands[name], commands) if rest in (["-h"], ["--help"]) else _call(commands[name], rest)
    return _no_command(arguments, commands)


def _beginnings(arguments: list[str]) -> list[str]:
    """Return what the arguments may begin with as names of commands, the longest first."""
    return [" ".join(arguments[:count]) for count in range(min(len(arguments), _LONGEST), 0, -1)]


def _help(command: Command, commands: Mapping[str, Command]) -> int:
    try:
        return _call(command, ["--help"])
    finally:
        if below := family(command.name, commands):
            print(f"\ngpuledger {command.name} ...\n{below}")


def _leave_the_pipe() -> int:
    """Say nothing more: the reader (head, less) has left, and Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _no_command(arguments: list[str], commands: Mapping[str, Command]) -> int:
    """Print what there is below a name that is a group, or say which command is meant."""
    group = next((name for name in _beginnings(arguments) if family(name, commands)), "")
    rest = arguments[len(group.split()) :]
    if group and (not rest or rest[0].startswith("-")):
        about = "".join(f": {row[1]}" for row in _OVERVIEW if row and row[0] == group)
        print(f"gpuledger {group}{about}\n\n{family(group, commands)}")
        return 0 if rest else USAGE
    meant = " ".join([group, *rest[:1]]).strip()
    return _fail(f"there is no command {meant!r}{_nearest(meant, commands)} gpuledger --help lists them", USAGE)


def _call(command: Command, arguments: list[str]) -> int:
    from agent.log_format import install as log_without_carets  # not for --version and --help

    log_without_carets()
    if sentence := too_old(command, sys.version_info[:2]):
        return _fail(sentence, USAGE)
    mask = _umask(command)
    try:
        with _ended_by_term(command):
            return command.load()(arguments)
    except (AgentConfigError, CollectorConfigError, AnalyzerConfigError) as error:
        return _fail(str(error), USAGE)
    except (AgentError, CollectorError, AnalyzerError) as error:
        return _fail(str(error), WORLD)
    except ModuleNotFoundError as error:
        return _fail(_missing(command, error), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        os.umask(mask)


@contextmanager
def _ended_by_term(command: Command) -> Iterator[None]:
    """Let SIGTERM end a daemon while it still starts: the first process of a container ignores what it has no word on.

    Once it runs it has handlers of its own.
    """
    from signal import SIG_DFL, SIGTERM, getsignal, signal
    from threading import current_thread, main_thread

    if command.name not in ("serve", "agent") or current_thread() is not main_thread() or getsignal(SIGTERM) != SIG_DFL:
        yield
        return
    told: list[int] = []

    def end(number: int, _: object) -> None:
        told.append(number)
        sys.exit(128 + number)

    signal(SIGTERM, end)
    try:
        yield
    except BaseException:
        if told:  # where a class is being made, Python 3.11 turns the exit into an error of its own
            sys.exit(128 + told[0])
        raise
    finally:
        signal(SIGTERM, SIG_DFL)


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
    return (
        f"gpuledger {command.name} needs {module}, which is not here: pip install --no-deps --require-hashes -r {lock}"
    )


def _nearest(name: str, commands: Mapping[str, Command]) -> str:
    from difflib import get_close_matches  # for what is mistyped alone

    near = get_close_matches(name, [*commands, *(row[0].split()[0] for row in _OVERVIEW if row)], n=1)
    return f", did you mean {near[0]!r}?" if near else ";"


def _fail(message: str, code: int) -> int:
    from agent.log_format import without_secrets  # not for --version and --help

    print(f"gpuledger: {without_secrets(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
