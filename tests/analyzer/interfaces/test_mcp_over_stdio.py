"""The command as a client starts it: a process that speaks the protocol on stdin and stdout, and nothing else there."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from analyzer.settings.settings import Settings
from gpuledger import main

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


def test_a_store_that_is_not_there_ends_it_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A client shows stderr; nobody should have to guess from a silent process."""
    assert main(["assistant", "--store", str(tmp_path / "absent.duckdb")]) == 3
    ended = capsys.readouterr()
    assert ended.out == ""
    assert "there is no store" in ended.err
