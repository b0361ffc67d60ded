"""What a person is shown before anything is solved: the task file as it is read, without a word of the model's own."""

from analyzer.capacity.planner.from_text.errors import ModelError
from analyzer.capacity.planner.from_text.task_draft import TaskDraft
from analyzer.capacity.planner.task_parser import read_tasks
from analyzer.settings.yaml_text import respelled_yaml
from analyzer.text.words import counted

_REFUSAL_LETTERS = 300


def to_confirm(found: TaskDraft, now: int, timezone: str) -> str:
    """Return the task file that is shown, kept and solved: comments and hidden letters are gone, no value has changed.

    Raises:
        ModelError: it cannot be spelled so that the same is read of it.
    """
    text = respelled_yaml(found.text)
    if read_tasks(text, now, timezone) != found.file:
        raise ModelError(
            "what the model wrote cannot be shown as it is read; ask again, or write the task file yourself"
        )
    return text


def about(found: TaskDraft) -> str:
    """Return what stands above it: how much was understood, in how many rounds, and that nothing was done with it.

    What a model had to change is told: it may have made it fit by leaving something out.
    """
    tasks = counted(len(found.file.tasks), "task")
    nodes = "nodes of the inventory" if found.file.nodes is None else counted(len(found.file.nodes), "node")
    rounds = "" if found.rounds == 1 else f" in {found.rounds} rounds"
    lines = [
        f"A model has understood {tasks} and {nodes}{rounds}; nothing has been solved.",
        *(f"It first wrote what could not be: {why[:_REFUSAL_LETTERS]}" for why in found.refused),
        "Read every line: what is missing or wrong here is missing or wrong in the plan.",
    ]
    return "\n".join(lines)
