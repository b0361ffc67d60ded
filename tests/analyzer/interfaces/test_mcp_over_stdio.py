"""The command as a client starts it: a process that speaks the protocol on stdin and stdout, and nothing else there."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from analyzer.settings.settings import Settings

ROOT = Path(__file__).parents[3]


def command(store: Path) -> StdioServerParameters:
    """Return how a client's settings start it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "gpuledger", "assistant", "--store", str(store)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_client_starts_the_command_and_asks(site: tuple[Path, Settings]) -> None:
    """The whole way: process, protocol, tools, answer."""

    async def within() -> int:
        async with Client(command(site[0])) as client:
            answer = await client.call_tool("topology", {})
            assert answer.structured_content is not None
            return int(answer.structured_content["nodes"])

    assert asyncio.run(within()) > 10


def test_a_store_that_is_not_there_ends_it_with_a_sentence(tmp_path: Path) -> None:
    """A client shows stderr; nobody should have to guess from a silent process."""
    ended = subprocess.run(
        [sys.executable, "-m", "gpuledger", "assistant", "--store", str(tmp_path / "absent.duckdb")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "there is no store" in ended.stderr
