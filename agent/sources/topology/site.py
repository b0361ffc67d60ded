"""What one file says of one node."""

from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError

MOST_NODES = 200_000  # of one file
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Site:
    """Rack, block and zone of a node as one source says them; None where it does not."""

    rack: str | None = None
    block: str | None = None
    zone: str | None = None


def read_text(path: Path) -> str:
    """Return the text of a file that the settings name: of topology, or of peers.

    Raises:
        ConfigError: it cannot be read, is too large, or is no text.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes; is it the right file?")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text; save it as such") from error
