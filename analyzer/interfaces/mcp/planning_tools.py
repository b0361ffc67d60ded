"""The tools that reckon plans: they read the text that they are given, and of the ledger what it leaves to it."""

from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from analyzer.capacity.planner import task_file
from analyzer.capacity.planner.proposal import BYTES_MAX
from analyzer.interfaces.mcp.plan_documents import Simulated, Solved, Validated
from analyzer.interfaces.mcp.planning import FILE_LETTERS, Planning
from analyzer.interfaces.mcp.site import Site
from analyzer.interfaces.mcp.site_ledger import SiteLedger
from analyzer.interfaces.mcp.tool_errors import READ_ONLY, made_or_refusal, shown_by

_FORMAT: Final = (
    "A task file as text, not as a path. What it leaves to the ledger (inventory, history) is looked up as far as your "
    "key may read: a team's key reads the history of its own runs, and no inventory.\n\n"
    f"{task_file.__doc__}"
)
_Tasks = Annotated[str, Field(min_length=1, max_length=FILE_LETTERS, description=_FORMAT)]
_SameTasks = Annotated[
    str, Field(min_length=1, max_length=FILE_LETTERS, description="A task file as text, as solve_plan describes it.")
]
_PROPOSAL: Final = (
    'JSON: {"placements": [{"task": "a", "node": "n1", "start_seconds": 0}], "problem": FINGERPRINT, '
    '"makespan_seconds": 1, "cost_usd": 1.0, "savings_usd": 1.0}; all but placements may be left out. Seconds count '
    "from the plan's start."
)
# A text, never "or none": of such a one the library would make a dict before we could read it strictly.
Proposal = Annotated[str, Field(max_length=BYTES_MAX, description=_PROPOSAL)]


def add_planning(server: MCPServer[Any], planning: Planning, site: Site) -> None:
    """Add the tools to a server. Each is called on a thread of its own, for it is no coroutine."""

    def ledger(context: Context[Any, Any]) -> SiteLedger:
        return SiteLedger(site, shown_by(context))

    @server.tool(annotations=READ_ONLY)
    def solve_plan(context: Context[Any, Any], tasks: _Tasks) -> Solved:
        """The best plan that is found for a task file, whether it keeps the deadline, and what no plan can beat."""
        return made_or_refusal(lambda: planning.solve(tasks, ledger(context)))

    @server.tool(annotations=READ_ONLY)
    def validate_plan(context: Context[Any, Any], tasks: _SameTasks, proposal: Proposal) -> Validated:
        """Check a proposed plan: every broken rule, our own makespan, cost and savings, and the nearest valid plan.

        After three proposals for one problem that do not hold, the solver's plan is the answer.
        """
        return made_or_refusal(lambda: planning.validate(tasks, ledger(context), proposal, shown_by(context)))

    @server.tool(annotations=READ_ONLY)
    def simulate_plan(context: Context[Any, Any], tasks: _SameTasks, proposal: Proposal = "") -> Simulated:
        """When a plan ends if durations vary as the task file says: of a proposal that holds, or of the solver's."""
        return made_or_refusal(lambda: planning.simulate(tasks, ledger(context), proposal))
