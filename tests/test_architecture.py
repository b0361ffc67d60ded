"""The house keeps its rooms apart: one door to each foreign thing, and imports that point only back."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.house import PACKAGES, product, public_names

ROOT = Path(__file__).parent.parent
OURS = (*PACKAGES, "gpuledger", "tests", "bench")

# What each room may import of ours. The analyzer hands its whole door to the pages; agent.wire is the contract, and the
# others are how all of us start a process, speak to others, log, are scraped and say which release we are: the host
# needs them as well, and is the lowest.
OF_ALL = (
    "agent.wire",
    "agent.child",
    "agent.connection",
    "agent.exposition",
    "agent.log_format",
)
MAY_IMPORT = {
    "agent": ("agent",),
    "collector": ("collector", *OF_ALL),
    "analyzer": ("analyzer", "collector", *OF_ALL),
    "dashboards": ("dashboards", "analyzer", "collector", *OF_ALL),
    "simulator": ("simulator", "agent"),
}

# The rooms of each package, the lowest first: a file imports its own room and those before it, and so no two knot.
# `root` are the files beside the rooms; those of one tuple are one storey.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "agent": (
        ("root", "wire"),
        ("attribution",),
        ("sources",),
        ("gpu",),
        ("config",),
        ("sampling",),
        ("spool",),
        ("delivery",),
        ("metrics",),
        ("daemon",),
        ("run",),
        ("doctor",),
        ("cli",),
    ),
    "collector": (
        ("root",),
        ("store",),
        ("registry",),
        ("backup",),
        ("pipeline",),
        ("lake",),
        ("access",),
        ("schedulers",),
        ("prometheus",),
        ("importing",),
        ("http",),
        ("cli",),
    ),
    "analyzer": (
        ("root", "settings", "queries", "text", "charts"),
        ("prices",),
        ("sizing",),
        ("measures",),
        ("ledger",),
        ("findings",),
        ("recommendations",),
        ("finops",),
        ("capacity",),
        ("reports",),
        ("interfaces",),
    ),
    "dashboards": (
        ("root", "grafana", "prometheus"),
        ("pages",),
        ("server",),
        ("demo",),
        ("cli",),
    ),
}
# The pass of the analysis is said in one file beside the rooms, and goes through them from the lowest to the highest;
# a room of one module is that module.
ABOVE = {
    "agent/config.py": "config",
    "agent/doctor.py": "doctor",
    "analyzer/analysis.py": "interfaces",
    "dashboards/demo.py": "demo",
    "dashboards/cli.py": "cli",
}

# Who imports within functions, and why: a command starts before it loads what only some of its uses need.
START, OPTIONAL = "most uses of the command do without it, and start sooner", "brought by an extra, or by another role"
WITHIN_FUNCTIONS = {
    "gpuledger.py": START,
    "agent/sampling/wiring.py": "a source that this host has not costs no memory",
    "agent/config.py": "a host without services loads nothing of them",
    "analyzer/server_client.py": START,
    "analyzer/capacity/gate/request_store.py": START,
    "analyzer/finops/forecast.py": OPTIONAL,
    "analyzer/finops/non_gpu_costs/energy.py": START,
    "analyzer/interfaces/cli/backups.py": START,
    "analyzer/interfaces/questions/question.py": START,
    "analyzer/interfaces/questions/sizing.py": START,
    "analyzer/interfaces/cli/capacity_gate.py": START,
    "analyzer/interfaces/cli/capacity_profile.py": START,
    "analyzer/interfaces/cli/command.py": START,
    "analyzer/interfaces/cli/planner.py": START,
    "analyzer/interfaces/cli/recording.py": START,  # plotly takes 0.3 s, and a report on a terminal draws nothing
    "analyzer/interfaces/cli/prices.py": START,
    "analyzer/interfaces/cli/report.py": START,
    "analyzer/interfaces/html.py": START,
    "analyzer/interfaces/text/recording_text.py": START,  # most commands have no GPU, or are over at once
    "analyzer/interfaces/mail/content.py": "charts are drawn for mails alone",
    "analyzer/interfaces/onboarding/runs.py": START,
    "collector/cli/access.py": START,
    "collector/lake/series.py": "who draws no chart needs no pyarrow",
    "collector/registry/tables.py": OPTIONAL,
    "collector/store/session.py": "readers never need pyarrow, and it brings numpy",
    "dashboards/cli.py": START,
}

# The foreign thing, and the folders or files that are its only door.
DOORS = {
    "pynvml": ("agent/gpu/nvidia/",),
    "duckdb": ("collector/store/",),
    "sqlalchemy": ("collector/registry/",),
    "psycopg": ("collector/registry/",),
    "statsforecast": ("analyzer/finops/forecast.py",),
    "numpy": ("simulator/", "analyzer/finops/forecast.py"),  # what is fitted takes its arrays
    "simulator": ("simulator/",),  # the demo starts it as a child; nothing that ships may come to need it
    # The API is readings, typed: it lives with them. An assistant asks it in its own process.
    "fastapi": ("collector/", "dashboards/", "analyzer/interfaces/api/", "analyzer/interfaces/mcp/"),
    "mcp": ("analyzer/interfaces/mcp/",),
    "mcp_types": ("analyzer/interfaces/mcp/",),  # what it speaks in, from the same hands
    "jinja2": ("analyzer/interfaces/mail/", "analyzer/text/"),
    "plotly": ("analyzer/charts/",),
    "rich": ("analyzer/", "dashboards/"),
    "pyarrow": ("collector/", "analyzer/", "dashboards/"),
    "grafana_foundation_sdk": ("dashboards/grafana/",),  # of developers alone: no server makes dashboards
}

# Who reads JSON, TOML or YAML without the bounds of agent/wire/bounded.py and analyzer/settings/bounded.py: what it
# reads was written by us, or comes from who was asked, in bounds of bytes of its own.
PARSERS = {"json.loads", "json.load", "tomllib.loads", "tomllib.load", "orjson.loads", "model_validate_json"}
YAML_PARSERS = {"load", "load_all", "safe_load", "full_load", "unsafe_load", "parse", "compose", "scan"}
BOUNDED = {"agent/wire/bounded.py", "analyzer/settings/bounded.py", "analyzer/interfaces/api/request_service.py"}
OURS_ALONE = {
    "agent/sources/register.py",  # what the agent remembered in columns of its own
    "collector/pipeline/decoding/decoder.py",  # between the collector and its own decoders
    "collector/registry/keys.py",  # columns of our own tables
    "collector/importing/history.py",
    "collector/backup/manifest.py",  # a file that a backup wrote
    "analyzer/capacity/planner/cp_sat.py",  # between the analyzer and its own solvers
    "analyzer/capacity/planner/prove.py",
    "analyzer/ledger/windows.py",  # columns of our own tables
    "analyzer/interfaces/alarms/hook.py",
    "analyzer/recommendations/lifecycle/lifecycle_tables.py",
    "analyzer/text/words.py",  # what is said of findings and changes: tables that are shipped
    "analyzer/capacity/gate/request_store.py",
    "analyzer/findings/judgement.py",
    "dashboards/demo.py",  # between the demo and its agents
    "dashboards/disk_cache.py",  # pages that a server kept for itself
    "dashboards/grafana/panels.py",  # what it wrote the line before
}
ASKED = {  # answers of a server that the settings or a flag name, bounded in bytes before
    "collector/prometheus/client.py",
    "collector/schedulers/slurm/jobs.py",
    "collector/schedulers/kubernetes/api.py",
    "collector/http/probe.py",
    "analyzer/server_client.py",
    "analyzer/interfaces/cli/command.py",
    "analyzer/interfaces/mcp/site.py",
    "analyzer/interfaces/cli/capacity_gate.py",
}

SAYS_NOTHING = {
    "look", "told", "asked", "said", "held", "shown", "seen", "kept", "known", "part", "place", "book", "beside",
}  # fmt: skip
# Models whose name stands in the document of the API or of the assistant's tools, which people have.
NAMES_OF_THE_API = {
    ("analyzer/interfaces/mcp/untrusted.py", "Said"),
}

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_SQL_CHARACTERS = 120
# The contract is one table: every column once, in one place, is worth more than a short file.
LONG_FILES = {"agent/wire/tables.py"}
NO_SUBJECT = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "base"}
# Calls that do something to the world, or depend on it, and so must not run because a module was imported.
WORK = {"open", "print", "connect", "getenv", "basicConfig", "Thread", "Popen", "run", "start", "mkdir"}

FORKS = {"fork", "forkpty", "fork1"}
# A program of its own that a test starts; it makes sure that it has one thread before it forks.
FORKS_ALONE = ROOT / "tests" / "agent" / "gpu" / "child.py"


# The pass alone sees the store as it was told, and makes of it what is believed (analyzer/ledger/believed.py).
TOLD = {"analyzer/analysis.py", "analyzer/ledger/believed.py"}
# What is in no table of runs: how far a store is sealed, counted by the doctor.
OF_THE_LAKE = {"lake.main.receipts", "lake.main.markers"}


def name_of(path: Path) -> str:
    """Return a file's name as people type it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's tree: to find them takes as long as to parse the file."""
    return tuple(ast.walk(tree_of(path)))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the dotted name of everything that a file imports, within functions too."""
    found: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: write imports in full"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def at_import(path: Path) -> Iterator[ast.Call]:
    """Yield the calls that run because a module is imported, without the bodies of functions."""
    pending: list[ast.AST] = [node for node in tree_of(path).body if not _is_main_guard(node)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending.extend(getattr(node, "decorator_list", []))
        else:
            pending.extend(ast.iter_child_nodes(node))


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _within(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_only_back(package: str) -> None:
    """The folder that runs on every GPU host can then be audited by itself, and no two rooms can knot."""
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in product()
        if path.is_relative_to(ROOT / package)
        for name in imports(path)
        if _within(name, OURS) and not _within(name, MAY_IMPORT[package])
    ]
    assert wrong == []


def room_of(file: str) -> tuple[str, str]:
    """Return the package and the room of a file."""
    package, *rest = file.split("/")
    return package, ABOVE.get(file, rest[0] if len(rest) > 1 else "root")


@cache
def file_of(name: str) -> str | None:
    """Return the file of ours that a dotted name of an import is of."""
    for dotted in (name, name.rpartition(".")[0]):
        path = ROOT / dotted.replace(".", "/")
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return name_of(file)
    return None


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_stand_in_one_order(package: str) -> None:
    """What stands below what can be said in a line; what is imported within functions or for its types counts too."""
    storey = {room: number for number, rooms in enumerate(ROOMS[package]) for room in rooms}
    here = [
        path for path in product() if path.is_relative_to(ROOT / package) and path != ROOT / package / "__init__.py"
    ]
    assert {room_of(name_of(path))[1] for path in here} <= storey.keys()
    wrong = [
        f"{name_of(path)} imports {file}"
        for path in here
        for file in filter(None, map(file_of, imports(path)))
        if room_of(file)[0] == package and storey[room_of(file)[1]] > storey[room_of(name_of(path))[1]]
    ]
    assert wrong == []


@pytest.mark.parametrize("module", DOORS)
def test_a_foreign_thing_has_one_door(module: str) -> None:
    """What is behind one door can be replaced, renamed and tested in one place."""
    wrong = [
        name_of(path)
        for path in product()
        if any(_within(name, (module,)) for name in imports(path)) and not name_of(path).startswith(DOORS[module])
    ]
    assert wrong == []


def imports_within(path: Path) -> bool:
    """Say whether a function of a file imports anything."""
    functions = [node for node in nodes_of(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) for one in functions for node in ast.walk(one))


def test_a_name_says_what_it_holds() -> None:
    """A search for `told` found ten things that have nothing to do with one another."""
    found = {
        (name_of(path), name)
        for path in product()
        for name in (path.stem, *public_names(path))
        if name.lower() in SAYS_NOTHING
    }
    assert found == NAMES_OF_THE_API


def test_what_a_file_needs_stands_at_its_head() -> None:
    """An import within a function hides a dependency, and often a circle: each such file says why."""
    found = {name_of(path) for path in product() if path.is_relative_to(ROOT) and imports_within(path)}
    assert sorted(found - WITHIN_FUNCTIONS.keys()) == []
    assert sorted(WITHIN_FUNCTIONS.keys() - found) == [], "these import at their head alone: take them out of the list"


@cache
def knots() -> tuple[tuple[str, ...], ...]:
    """Return the circles of modules, imports within functions and for types alone among them."""
    graph = {name_of(path): set(filter(None, map(file_of, imports(path)))) - {name_of(path)} for path in product()}
    found, finished = [], set[str]()

    def walk(file: str, way: tuple[str, ...]) -> None:
        if file in way:
            found.append(way[way.index(file) :])
        elif file not in finished:
            for other in sorted(graph.get(file, ())):
                walk(other, (*way, file))
            finished.add(file)

    for file in sorted(graph):
        walk(file, ())
    return tuple(found)


def test_no_modules_import_each_other() -> None:
    """Of a circle nobody can say what stands below what, or read one part without the others."""
    assert knots() == ()


def parses(path: Path) -> bool:
    """Say whether a file calls a parser of JSON, TOML or YAML that has no bounds."""
    calls = [ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)]
    return any(
        call in PARSERS
        or call.rpartition(".")[2] == "model_validate_json"
        or call in {f"yaml.{w}" for w in YAML_PARSERS}
        for call in calls
    )


def test_what_others_wrote_is_parsed_behind_one_door() -> None:
    """Python's readers know no bounds: 200 kB of a key with dots took 23 GB of memory."""
    allowed = BOUNDED | OURS_ALONE | ASKED
    files = {name_of(path) for path in product() if parses(path)}
    assert sorted(files - allowed) == []
    assert sorted(allowed - files) == [], "these parse no more: take them out of the list"


def test_nothing_works_at_import() -> None:
    """Importing a module must be safe anywhere: no file, thread or environment is touched."""
    wrong = [
        f"{name_of(path)}:{call.lineno} {_called(call)}()"
        for path in product()
        for call in at_import(path)
        if _called(call) in WORK
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("agent", ("config.py", "errors.py", "cli")),
        ("collector", ("config.py", "errors.py", "cli")),
        ("analyzer", ("settings/settings.py", "errors.py", "interfaces/cli")),
        ("dashboards", ("cli.py",)),  # its settings and errors are those of the collector and the analyzer it joins
    ],
)
def test_a_package_has_its_rooms(package: str, rooms: tuple[str, ...]) -> None:
    """Who opens any package finds its settings, its errors and its commands under the same names."""
    assert [name for name in rooms if not (ROOT / package / name).exists()] == []


def test_an_init_is_a_sign_on_the_door() -> None:
    """A package says what it is in one line; a folder within may hand out what is behind it, and does nothing else."""
    for path in product():
        if path.name == "__init__.py":
            tree = tree_of(path)
            assert ast.get_docstring(tree), f"{name_of(path)} has a docstring"
            rest = [node for node in tree.body[1:] if not isinstance(node, ast.ImportFrom) and not _is_all(node)]
            assert rest == [], f"{name_of(path)} does something"
            assert path.parent.parent != ROOT or len(tree.body) == 1, f"{name_of(path)} is one line"


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def test_only_the_command_line_prints() -> None:
    """Who prints cannot be used by who must not: `gpuledger run` keeps the command's own output untouched."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in product()
        if path.name not in ("cli.py", "__main__.py", "gpuledger.py") and path.parent.name != "cli"
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and _called(node) == "print" and isinstance(node.func, ast.Name)
    ]
    assert wrong == []


def test_no_test_forks_its_own_process() -> None:
    """The child has one thread, and each lock as some other thread held it: say `subprocess` instead."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for folder in (*PACKAGES, "tests", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != FORKS_ALONE
        if any(word in path.read_text("utf-8") for word in ("fork", "preexec_fn"))  # to parse all would take seconds
        for node in nodes_of(path)
        if (isinstance(node, ast.Call) and _called(node) in FORKS)
        or (isinstance(node, ast.keyword) and node.arg == "preexec_fn")
    ]
    assert wrong == []


def test_files_and_functions_stay_short() -> None:
    """A subject that outgrows its file becomes a folder of the same name."""
    wrong = []
    for path in product():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MAX_FILE_LINES and name_of(path) not in LONG_FILES:
            wrong.append(f"{name_of(path)} has {lines} lines")
        for node in nodes_of(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    wrong.append(f"{name_of(path)}:{node.lineno} {node.name} has {length} lines")
    assert wrong == []


def test_a_file_has_a_subject() -> None:
    """A drawer named utils fills with what nobody finds again."""
    assert [name_of(path) for path in product() if path.stem in NO_SUBJECT] == []


def test_no_approximation_decides_a_state() -> None:
    """approx_quantile gave three ledgers in three runs over the same samples."""
    files = [*(ROOT / "analyzer").rglob("*.py"), *(ROOT / "analyzer").rglob("*.sql")]
    assert [name_of(path) for path in files if "approx_" in path.read_text("utf-8")] == []


def test_nothing_names_the_machine_it_was_made_on() -> None:
    """A path of somebody's machine works nowhere else."""
    places = ("/" + "work/", "/" + "root/")
    suffixes = (".py", ".sql", ".toml", ".md", ".html", ".js", ".css", ".service", ".lock", "")
    wrong = [
        name_of(path)
        for folder in (*PACKAGES, "tests", "bench", "docs", "systemd", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
        for text in [path.read_text("utf-8", errors="replace")]
        if any(place in text for place in places)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in product()
        if name_of(path).startswith(("analyzer/", "dashboards/")) and name_of(path) not in TOLD
    ],
    ids=name_of,
)
def test_whoever_reads_sees_of_runs_what_is_believed(path: Path) -> None:
    """A host can name any run in its rows: where they are taken as told, one host moves what is said of others."""
    opened = [
        ast.unparse(node)
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("session", "hot_session")
        and ast.unparse(node.value).endswith("store")
    ]
    assert opened == [], "take a session by believing(store)"
    words = " ".join(
        node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    named = set(re.findall(r"\blake\.main\.\w+", words))
    assert named <= OF_THE_LAKE, "say the table alone, and its view stands before it"


def test_no_statement_of_a_file_says_where_a_table_is() -> None:
    """Said so, it would be the table as it was told, behind the view of what is believed."""
    for path in (ROOT / "analyzer").rglob("*.sql"):
        assert not re.search(r"\b(lake|hot|memory)\.(main|books)\.", path.read_text()), path.name


def test_no_line_of_sql_is_wider_than_one_of_python() -> None:
    """Half of a line of 250 characters is never read. Migrations stand as they were applied."""
    files = [path for path in (ROOT / "analyzer").rglob("*.sql") if "schema" not in path.parts]
    assert len(files) > 100
    wide = [
        f"{name_of(path)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > MAX_SQL_CHARACTERS
    ]
    assert wide == []
