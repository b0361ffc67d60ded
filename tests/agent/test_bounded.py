"""What others wrote is counted before it is parsed: size, depth, keys, values and digits have bounds."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.bounded import TooDeepError, TooMuchError, bounded_json, json_said, toml_said

ROOT = Path(__file__).parents[2]
tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
DOTS = "a" + ".a" * 100_000 + " = 1"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_that_is_meant_says_what_it_says(said: object) -> None:
    """Strings with brackets, commas, quotes and backslashes in them are one value each."""
    for text in (json.dumps(said), json.dumps(said, ensure_ascii=False)):
        assert json_said(text) == said
        assert json.loads(bounded_json(text)) == said


@pytest.mark.parametrize(
    "text",
    [
        'a = """x\\"""" \nb = 1',
        "a = '''it''s'''''\nb = '['",
        'a = "[[[[[" # {{{{{\nb = [[1, 2], [3]]',
        '[[price]]\nusd_per_gpu_hour = 2.60\nfrom = 2026-11-01T00:00:00+01:00\n"gl.x/y".z = 1979-05-27',
        "[a.b.c]\nd.e = { f = 1e3, g = 0xff }",
    ],
)
def test_toml_that_is_meant_says_what_it_says(text: str) -> None:
    """Quotes within quotes, comments with brackets, times and numbers with dots."""
    assert toml_said(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (DOTS, TooDeepError),
        (f"[{'a.' * 20}a]", TooDeepError),
        ("x = { " + '"a" . ' * 20 + "a = 1 }", TooDeepError),
        ("a = " + "[" * 200, TooDeepError),
        ("a = [" + "1," * 60_000 + "]", TooMuchError),
        ("".join(f"[a{number}.b.c.d]\n" for number in range(20_000)), TooMuchError),
        ("a = " + "1" * 401, TooMuchError),
        ("a = 0x" + "f" * 500, TooMuchError),
        ("#" * 2**21, TooMuchError),
        ("\n" * 200_000, TooMuchError),
    ],
)
def test_toml_that_would_take_the_memory_is_refused(text: str, error: type[ValueError]) -> None:
    """tomllib makes of each part of a key all that are before it, and Python of a long number its square."""
    with pytest.raises(error):
        toml_said(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[" * 100_000, TooDeepError),
        ('{"a":' * 100 + "1" + "}" * 100, TooDeepError),
        ("[" + "1," * 400_000 + "1]", TooMuchError),
        ("1" * 500, TooMuchError),
        ('"' + "x" * 2**23 + '"', TooMuchError),
        ('"\\' * 500_000, ValueError),
    ],
)
def test_json_that_would_take_the_memory_is_refused(text: str, error: type[ValueError]) -> None:
    """Whoever may send a body may send any."""
    with pytest.raises(error):
        json_said(text)


def test_a_key_with_a_hundred_thousand_dots_costs_nothing() -> None:
    """It took 23 GB: a process that may have one ends with a sentence."""
    program = (
        "import resource, sys\n"
        "from agent.wire.bounded import TooDeepError, toml_said\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "try:\n    toml_said('a' + '.a' * 100_000 + ' = 1')\n"
        "except TooDeepError as error:\n    sys.exit(str(error))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "a key is nested over 8 deep" in ran.stderr
