"""What all tools share: that they only read, who asks, and how a refusal is told."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from analyzer.errors import AnalyzerError
from analyzer.interfaces.mcp.untrusted import sentence
from collector.errors import CollectorError

READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
T = TypeVar("T")


def shown_by(context: Context[Any, Any]) -> str | None:
    """Return the Authorization of this very message; over stdio there is none."""
    headers = context.headers
    return None if headers is None else headers.get("authorization")


async def answer_or_refusal(reading: Awaitable[T]) -> T:
    """Return a reading, or say in a sentence why there is none; names within it are marked as data, too.

    Raises:
        ToolError: the ledger refuses, has no such thing, or cannot be read.
    """
    try:
        return await reading
    except (AnalyzerError, CollectorError) as error:
        raise _refusal(error) from error


def made_or_refusal(make: Callable[[], T]) -> T:
    """Return what is made, or say why not. Raises as answer_or_refusal()."""
    try:
        return make()
    except (AnalyzerError, CollectorError) as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> ToolError:
    return ToolError(sentence(str(error)).model_dump_json())
