"""What can go wrong with a plan.

ConfigError              exit 2
├── ProblemError         the tasks and nodes contradict themselves, or a task fits nowhere
│   └── TaskFileError    a task file says what no task file can
├── UnseenError          the ledger never saw a job on a kind of GPU, or not often enough
└── ProposalError        a proposed plan cannot be read
"""

from analyzer.errors import AnalyzerError, ConfigError


class ProblemError(ConfigError):
    """Tasks, nodes and edges contradict themselves, or a task fits no node; the message names it and the way out."""


class TaskFileError(ProblemError):
    """A task file cannot be read, or says what no task file can."""


class UnseenError(ConfigError):
    """The ledger has too few runs of a job on a kind of GPU to say how long it takes there."""


class ProposalError(ConfigError):
    """What somebody proposes cannot be read as a plan; the message says which part and what it should be."""


class ModelError(AnalyzerError):
    """The model cannot be reached, refuses, or says what is no task file; exit 3. No key is ever in the message."""
