"""One message of a run: anybody on the host can send one, so nothing in it is trusted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.mailbox import MEASURED_MAX, MESSAGE_BYTES_MAX, NAME_CHARACTERS_MAX, TOTAL_MAX, Message, parse


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"step": 120}', Message({"steps": 120}, None)),
        (b'{"step": 1, "tokens": 4096, "samples": 8}\n', Message({"steps": 1, "tokens": 4096, "samples": 8}, None)),
        (b'{"requests": 3, "checkpoint": "ckpt-1200"}', Message({"requests": 3}, "ckpt-1200")),
        (b'{"tokens": 1e6}', Message({"tokens": 1_000_000}, None)),
        (b'{"data_wait_seconds": 12.75}', Message({"data_wait_seconds": 12.75}, None)),
        (b'{"step": 7, "data_wait_seconds": 3}', Message({"steps": 7, "data_wait_seconds": 3.0}, None)),
        (b'{"step": 0}', Message({"steps": 0}, None)),
        (b'{"step": 5, "loss": 0.31, "run_id": "slurm/alpha/81234"}', Message({"steps": 5}, None)),
        (b'{"step": 5, "tokens": null}', Message({"steps": 5}, None)),
        (b'{"checkpoint": "/scratch/ada/secret-project/ckpt-7/"}', Message({}, "ckpt-7")),
    ],
)  # fmt: skip
def test_what_a_message_says(line: bytes, message: Message) -> None:
    """Totals by column; other keys are passed over, a run's id too, and a path keeps its last part only."""
    assert parse(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"step 120",
        b"[1, 2]",
        b"120",
        b"{}",
        b'{"loss": 0.3}',
        b'{"step": -1}',
        b'{"step": 1.5}',
        b'{"step": true}',
        b'{"step": "120"}',
        b'{"step": NaN}',
        b'{"step": Infinity}',
        b'{"step": 1e999}',
        b'{"step": 9007199254740993}',
        b'{"step": 1, "tokens": -5}',
        b'{"data_wait_seconds": -0.1}',
        b'{"data_wait_seconds": true}',
        b'{"data_wait_seconds": "3"}',
        b'{"data_wait_seconds": 1e999}',
        b'{"data_wait_seconds": 1000000001}',
        b'{"checkpoint": ""}',
        b'{"checkpoint": 7}',
        b'{"checkpoint": "a\\u0000b"}',
        b'{"checkpoint": "' + b"x" * (NAME_CHARACTERS_MAX + 1) + b'"}',
        b'{"step": 1}{"step": 2}',
        b'\xff{"step": 1}',
        b"[" * MESSAGE_BYTES_MAX,
        b'{"step": ' + b"9" * 4000 + b"}",
        b'{"step": 1}' + b" " * MESSAGE_BYTES_MAX,
    ],
)
def test_what_is_no_message(line: bytes) -> None:
    """None of it may become a number, stop the thread that hears, or cost more than a look."""
    assert parse(line) is None


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_message_or_none(line: bytes) -> None:
    """Whatever comes, what is kept can be told: totals within bounds, a name that is one."""
    message = parse(line)
    assert message is None or message.totals or message.checkpoint


@given(
    st.dictionaries(
        st.sampled_from(["step", "tokens", "samples", "requests", "data_wait_seconds", "checkpoint", "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
            max_leaves=4,
        ),
    )
)
def test_any_json_is_a_message_or_none(said: dict[str, object]) -> None:
    """Of every shape that JSON can have, only numbers that can be totals pass: whole ones, but for measured seconds."""
    message = parse(json.dumps(said).encode())
    if message is not None:
        counted = {name: total for name, total in message.totals.items() if name != "data_wait_seconds"}
        assert all(isinstance(total, int) and 0 <= total <= TOTAL_MAX for total in counted.values())
        assert 0 <= message.totals.get("data_wait_seconds", 0) <= MEASURED_MAX
        assert message.checkpoint is None or 0 < len(message.checkpoint) <= NAME_CHARACTERS_MAX
