"""Nothing is shipped that no command, page, route or daemon reaches: what tests and benches alone call lives there."""

from functools import cache
from pathlib import Path

from tests.reach import Module, Reach, all_unreached, unreached

# What nothing names, by how it begins, and what it is there for.
EXCEPTIONS = {
    "analyzer/charts/plotly.LICENSE.txt": "the licence of the file beside it",
    "analyzer/ledger/sql/amounts/": "amounts/amount_booking.py puts the name together: {kind}_of_tiers.sql",
    "analyzer.ledger.tables:LEDGER": "the document of its columns and the test of the migrations are made from it",
    "analyzer.ledger.tables:ADJUSTMENTS": "the same, of closed hours",
    "analyzer.ledger.tables:_VERSIONS": "columns of both",
    "collector/store/schema/0": "migrations are applied by their numbers",
    "collector.store.session:_Absent.find_spec": "Python asks it for each module (sys.meta_path)",
    "dashboards.grafana": "makes the JSON beside it: make grafana",
    "dashboards/prometheus/": "people run it: promtool test rules (docs/alerts.md)",
    "dashboards/templates/parts/run_": "run_page.py puts the name together: parts/run_{name}.html",
    "dashboards.server.prefetch:Prefetch.is_asked": "tests of restarts wait until all is made that is made ahead",
}

PROGRAM = {
    "gpuledger.py": """
COMMANDS = {"one": "agent.cli.agent:one"}
def main(): return COMMANDS
""",
    "agent/cli/agent.py": """
from agent.things import Thing, dead_function
LIMIT = 1
UNUSED = 2
def one():
    thing = Thing()
    return run("agent.child"), thing.method(), LIMIT
def two(): return dead_function()
""",
    "agent/things.py": """
class Thing:
    def __init__(self): ...
    def method(self): return helper()
    def dead_method(self): return dead_helper()
def helper(): ...
def dead_helper(): ...
def dead_function(): ...
""",
    "agent/child.py": """
def work(): ...
def main(): return work()
def dead(): ...
if __name__ == "__main__":
    main()
""",
    "agent/lost.py": "def lost(): ...",
}
DEAD = {
    "agent.cli.agent:UNUSED",
    "agent.cli.agent:two",
    "agent.things:Thing.dead_method",
    "agent.things:dead_helper",
    "agent.things:dead_function",
    "agent.child:dead",
    "agent.lost",
}


@cache
def found() -> tuple[str, ...]:
    """Return all of the product that is not reached."""
    return tuple(what for what, _ in all_unreached())


def test_nothing_is_shipped_that_nothing_reaches() -> None:
    """It would be read, typed, moved and kept right for nobody."""
    assert [what for what in found() if not what.startswith(tuple(EXCEPTIONS))] == []


def test_every_exception_still_excepts_something() -> None:
    """One that stands for nothing any more hides the next thing of that name."""
    assert [name for name in EXCEPTIONS if not any(what.startswith(name) for what in found())] == []


def test_what_is_dead_is_found_and_what_lives_is_not(tmp_path: Path) -> None:
    """A search that finds nothing looks the same as a product of which all is reached."""
    for name, text in PROGRAM.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reach = Reach(Module.read(tmp_path / name, tmp_path) for name in PROGRAM)
    assert {what for what, _ in unreached(reach)} == DEAD
