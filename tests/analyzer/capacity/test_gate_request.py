"""A request is read strictly, in three forms that say the same, and what cannot be is told in one sentence."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.gate.request import FILE_BYTES, Request, read_requests, request_of
from analyzer.errors import ConfigError
from tests.analyzer.capacity.gate_asking import SAID, request

TOML = """
team = "team-nlp"
gpus = 32
sku = "H100-80GB"
weeks = 8
starts = 2026-12-01
why = "three llama-sft runs at a time instead of one, for the March release"
work = "llama-sft"
growth = 3
gpus_per_run = 16
needed_for = "March"
"""


def refused(folder: Path, name: str, text: str | bytes) -> str:
    """Return the sentence with which a file is refused."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        read_requests(path)[0][0]
    said = str(error.value)
    assert len(said) < 400
    assert "\n" not in said
    return said


def test_three_forms_say_the_same(tmp_path: Path) -> None:
    """A team writes what its repository has already."""
    forms = {"r.toml": TOML, "r.json": json.dumps(SAID), "r.yaml": yaml.safe_dump(SAID), "r.yml": yaml.safe_dump(SAID)}
    found = set()
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        found.add(read_requests(tmp_path / name)[0][0])
    assert found == {request()}


def test_weeks_and_hours_are_one_thing() -> None:
    """Eight weeks are 1,344 hours, and half a week is 84."""
    assert request().hours == request(weeks=None, hours=1344).hours == 1344
    assert request(weeks=0.5).hours == 84
    assert request(growth=1.25).growth_permille == 1250


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpu": 32}, "unknown key 'gpu'; did you mean 'gpus'?"),
        ({"colour": "red"}, "unknown key 'colour'; it may have gpu_hours, gpus, gpus_per_run, growth"),
        ({"gpus": 0}, "'gpus' must be a whole number from 1 to 100,000, not 0"),
        ({"gpus": -8}, "not -8"),
        ({"gpus": 10**30}, "from 1 to 100,000"),
        ({"gpus": 10**5000}, "a number with thousands of digits"),
        ({"gpus": True}, "not true"),
        ({"gpus": 8.0}, "not 8.0"),
        ({"gpus": "32"}, "not '32'"),
        ({"weeks": float("nan")}, "'weeks' must be a plausible number, not nan"),
        ({"weeks": float("inf")}, "not inf"),
        ({"weeks": -1}, "whole number of hours"),
        ({"weeks": 0}, "whole number of hours"),
        ({"weeks": 0.001}, "whole number of hours"),
        ({"weeks": 10_000}, "260 weeks"),
        ({"weeks": None}, "either 'weeks' or 'hours'"),
        ({"hours": 3}, "either 'weeks' or 'hours'"),
        ({"growth": -1}, "over 0 and up to 1,000"),
        ({"growth": 1.0001}, "no more than three decimals"),
        ({"growth": "three"}, "'growth' must be a number"),
        ({"starts": "tomorrow"}, "must be a date such as 2026-12-01"),
        ({"starts": "2026-13-01"}, "must be a date such as 2026-12-01"),
        ({"team": None}, "'team' is missing"),
        ({"team": "  "}, "'team' must be text"),
        ({"team": "a\x1b[2Jb"}, "a character that cannot be printed"),
        ({"team": "x" * 121}, "no more than 120 characters"),
        ({"why": "x" * 501}, "no more than 500 characters, and has 501"),
        ({"work": []}, "'work' names 1 to 50 runs, not 0"),
        ({"work": ["x"] * 51}, "not 51"),
        ({"work": [1]}, "'work' must be text, not 1"),
        ({"pilot": "yes"}, "'pilot' must be true or false"),
        ({"today_gpus": 0}, "'today_gpus' must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    """The sentence names the key, and what it may be."""
    with pytest.raises(ConfigError) as error:
        request(**change)
    assert says in str(error.value)
    assert str(error.value).isprintable()


def test_all_that_is_wrong_is_told_at_once() -> None:
    """One round mends the file."""
    with pytest.raises(ConfigError) as error:
        request(gpu=32, gpus=0, starts="tomorrow", team=None)
    assert [line.partition(": ")[2][:30] for line in str(error.value).splitlines()] == [
        "unknown key 'gpu'; did you mea",
        "'team' is missing;",
        "'gpus' must be a whole number ",
        "'starts' must be a date such a",
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("r.toml", "gpus = ", "cannot be read as TOML"),
        ("r.toml", b"\xff\xfe", "is not UTF-8"),
        ("r.json", '{"gpus": 1, "gpus": 2}', "a key occurs twice"),
        ("r.json", '{"gpus": NaN}', "NaN is not a valid number"),
        ("r.json", "[1]", "a request is a list of keys"),
        ("r.json", "[" * 100_000, "r.json"),
        ("r.yaml", "gpus: 1\ngpus: 2\n", "a key is given twice"),
        ("r.yaml", "a: &a [x, x]\nb: [*a, *a]\n", "anchors and aliases are not supported"),
        ("r.yaml", "!!python/object/apply:os.system ['true']", "cannot be read as YAML"),
        ("r.yaml", "starts: 2026-13-45\n", "cannot be read as YAML"),
        ("r.yaml", "[" * 60_000, "r.yaml"),
        ("r.yaml", "- 1\n", "a request is a list of keys"),
        ("r.txt", "gpus = 1", "ends in .toml, .json, .yaml or .yml"),
        ("r.toml", "#" * (FILE_BYTES + 1), "the maximum for a request"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, name: str, text: str | bytes, says: str) -> None:
    """Also one that would fill the memory, or run something, if it were read as it asks to be."""
    assert says in refused(tmp_path, name, text)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("gpus = 6.5", "'gpus' must be a whole number from 1 to 100,000, not 6.5"),
        ("gpus = inf", "not inf"),
        ("gpus = true", "not true"),
        ("gpus = 2026-12-01", "not 2026-12-01"),
        ("gpus = 07:30:00", "not 07:30:00"),
        ("gpus = [32]", "not a list of 1"),
        ("gpus = { h100 = 32 }", "leave 'sku' out"),
        ("gpus = '32'", "not '32'"),
    ],
)
def test_a_message_says_what_a_person_wrote(tmp_path: Path, line: str, says: str) -> None:
    """Python's own words for it say nothing to whoever wrote the file."""
    assert refused(tmp_path, "r.toml", TOML.replace("gpus = 32", line)).endswith(says)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With the name that was typed."""
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml"):
        read_requests(tmp_path / "none.toml")[0][0]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(key=st.sampled_from(sorted(SAID)), value=ANYTHING)
def test_whatever_a_key_says_is_a_request_or_a_sentence(key: str, value: object) -> None:
    """And a request's numbers are then such that every sum over them is one that can be."""
    try:
        made = request_of("r", SAID | {key: value})
    except ConfigError:
        return
    assert isinstance(made, Request)
    assert 1 <= made.gpus <= 100_000
    assert 1 <= made.hours <= 43_680
    assert made.growth_permille is None or 1 <= made.growth_permille <= 10**6
    assert all(text.isprintable() for text in (made.team, made.sku, made.why, *made.work))


@pytest.mark.parametrize(
    "key", ["vcpus", "vcpu", "cpus", "tpus", "gpu_days", "gpu_minutes", "gpus_per_node", "days", "months"]
)
def test_a_hint_never_changes_what_is_counted(key: str) -> None:
    """32 vCPUs came out as 32 GPUs, by "did you mean 'gpus'?"."""
    with pytest.raises(ConfigError, match=f"unknown key '{key}'; it may have") as error:
        request_of("r", {**SAID, key: 32})
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("gpu", "gpus"), ("hour", "hours"), ("gpu_hour", "gpu_hours"), ("gpsu", "gpus"), ("weks", "weeks")],
)
def test_a_slip_of_the_pen_is_still_told_its_key(key: str, meant: str) -> None:
    """Where it counts the same, or says nothing of what it counts."""
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        request_of("r", {**SAID, key: 32})


def test_gpu_hours_are_those_of_all_gpus_together() -> None:
    """32 GPUs for 43,008 GPU-hours are eight weeks; what comes to no whole hour is refused."""
    assert request(weeks=None, gpu_hours=32 * 1344) == request()
    with pytest.raises(ConfigError, match="whole number of hours"):
        request(weeks=None, gpu_hours=100)
    with pytest.raises(ConfigError, match="either 'weeks' or 'hours'"):
        request(gpu_hours=43_008)


def test_several_kinds_are_asked_for_in_one_file(tmp_path: Path) -> None:
    """Each is a request of its own; GPU-hours are shared by the GPUs."""
    path = tmp_path / "r.toml"
    rest = TOML.replace("gpus = 32\n", "").replace('sku = "H100-80GB"\n', "").replace("weeks = 8\n", "")
    kinds = "gpus = { H100-80GB = 16, L4-24GB = 8 }\n"
    path.write_text(f"{kinds}gpu_hours = 2400\n{rest}")
    asked = [one for one, _ in read_requests(path)]
    assert [(one.sku, one.gpus, one.hours) for one in asked] == [("H100-80GB", 16, 100), ("L4-24GB", 8, 100)]
    assert {(one.team, one.why) for one in asked} == {(request().team, request().why)}
    assert "leave 'sku' out" in refused(tmp_path, "s.toml", f'{kinds}sku = "L4-24GB"\nweeks = 1\n{rest}')
    listed = f'gpus = 8\nsku = ["H100-80GB", "L4-24GB"]\nweeks = 1\n{rest}'
    assert "several kinds are asked for as gpus = {" in refused(tmp_path, "l.toml", listed)
    assert "names 1 to 16 kinds, not 0" in refused(tmp_path, "t.toml", f"gpus = {{}}\nweeks = 1\n{rest}")
    assert "'L4-24GB' must be a whole number" in refused(
        tmp_path, "u.toml", f"gpus = {{ L4-24GB = 0 }}\nweeks = 1\n{rest}"
    )
