"""What can go wrong on a GPU host.

AgentError
├── ConfigError       the settings are wrong; exit 2
├── EnvelopeError     a batch cannot be encoded or opened
├── SourceError       a reading failed; counted, tried again next beat
│   ├── SourceLostError   the thing itself is gone (a GPU off the bus) until it is reset
│   ├── SourceHungError   no answer in time; nobody waits for it any more
│   └── UnreadError       a service's page cannot be read; its state says why
├── DriverChangedError    the driver was replaced under us; the agent ends with exit 3, spool kept
├── ListenError       the port of /metrics cannot be had; exit 3
└── SpoolError        the spool's directory cannot be used; exit 3
"""


class AgentError(Exception):
    """Any failure of the agent; the message names the thing and the way out."""


class ConfigError(AgentError):
    """The settings are wrong."""


class EnvelopeError(AgentError):
    """A batch cannot be encoded, or is not one."""


class SourceError(AgentError):
    """A reading failed; the sampler counts it and tries again next beat."""


class SourceLostError(SourceError):
    """The thing that was read is gone until it is reset."""


class SourceHungError(SourceError):
    """The thing that was read did not answer in time; it is left alone until it does."""


class UnreadError(SourceError):
    """A service's page cannot be read. `state` is the word for why, as the column `state` has it."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class DriverChangedError(AgentError):
    """The driver was replaced while the agent ran; only a new process can load the new one."""


class ListenError(AgentError):
    """The port of /metrics cannot be had now; another process may hold it, and may let go of it."""


class SpoolError(AgentError):
    """The spool's directory cannot be used."""
