"""Pages of real servers say what they say, and no page stops the agent."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.sources.service_page import LINE_CHARACTERS_MAX, SAMPLES_MAX, Sample, read_page, samples
from agent.wire.serving import ENGINES

DATA = Path(__file__).parent / "data" / "services"


def page(*names: str) -> str:
    """Return captured pages as one."""
    return "".join((DATA / f"{name}.txt").read_text("utf-8") for name in names)


def test_vllm_v0() -> None:
    """One request of five tokens in and seven out, its first token after 0.313 s."""
    said = read_page(page("vllm_v0"))
    assert said is not None
    assert (said.engine, dict(said.counters)) == ("vllm", {"requests": 1, "tokens_in": 5, "tokens_out": 7})
    assert said.now == {"running": 0, "waiting": 0, "kv_cache_ratio": 0}
    assert said.first_token is not None
    assert (said.first_token[0.25], said.first_token[0.5], said.first_token[math.inf]) == (0, 1, 1)


def test_vllm_v1() -> None:
    """Ten requests; the cache has another name since, and every series has its engine."""
    said = read_page(page("vllm_v1"))
    assert said is not None
    assert (said.engine, dict(said.counters)) == ("vllm", {"requests": 10, "tokens_in": 80, "tokens_out": 500})
    assert said.now == {"running": 0, "waiting": 0, "kv_cache_ratio": 0}


def test_vllm_with_several_engines() -> None:
    """Data-parallel engines are one replica: queues and counters add up, shares do not."""
    said = read_page(
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.6\n'
        'vllm:gpu_cache_usage_perc{engine="0"} 0.9\n'
        'vllm:request_success_total{engine="0",finished_reason="stop"} 5\n'
        'vllm:request_success_total{engine="1",finished_reason="length"} 2\n'
        'vllm:request_success_total{engine="0",finished_reason="abort"} 70\n'
        'vllm:request_success_total{engine="0",finished_reason="error"} 9\n'
    )
    assert said is not None
    assert said.now == {"running": 7, "kv_cache_ratio": pytest.approx(0.4)}
    assert said.counters == {"requests": 7}, "a client that went away, or an error, is no success"


def test_triton() -> None:
    """Three requests over eight models; of tokens it knows nothing, and so neither do we."""
    said = read_page(page("triton"))
    assert said is not None
    assert (said.engine, dict(said.counters), dict(said.now)) == ("triton", {"requests": 3}, {"waiting": 0})


def test_triton_with_tensorrt_llm() -> None:
    """The backend knows its queue and its cache better than the server in front of it."""
    said = read_page(page("triton", "tensorrt_llm"))
    assert said is not None
    assert (said.engine, said.now) == ("triton", {"running": 1, "waiting": 1, "kv_cache_ratio": 0.4875})


def test_triton_with_vllm() -> None:
    """The page has both names; the server's word is the server's, the tokens are the backend's."""
    said = read_page(page("triton", "vllm_v0"))
    assert said is not None
    assert (said.engine, dict(said.counters)) == ("triton", {"requests": 3, "tokens_in": 5, "tokens_out": 7})


def test_tgi() -> None:
    """Its tokens are the sums of histograms, and it has no time to the first one."""
    said = read_page(page("tgi"))
    assert said is not None
    assert (said.engine, dict(said.counters)) == ("tgi", {"requests": 40, "tokens_in": 9000, "tokens_out": 8123})
    assert (said.now, said.first_token) == ({"running": 5, "waiting": 2}, None)


@pytest.mark.parametrize(
    "text", ["", "<html>", "# only comments\n", "node_load1 0.5\n", "vllm:num_requests_running NaN\n"]
)
def test_what_is_of_no_engine(text: str) -> None:
    """An address that serves something else is a mistake in the settings, not a service without requests."""
    assert read_page(text) is None


@pytest.mark.parametrize("name", ["vllm_v0", "vllm_v1", "triton", "tensorrt_llm", "tgi"])
def test_samples_are_those_of_prometheus(name: str) -> None:
    """Our reader reads what Prometheus's own reads, at a part of its cost."""
    theirs: dict[str, list[Sample]] = {}
    untyped = re.sub("(?m)^# TYPE.*\n", "", page(name))  # else it calls a counter x_total that the page calls x
    for family in text_string_to_metric_families(untyped):
        for sample in family.samples:
            theirs.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))
    assert samples(page(name), theirs.keys()) == theirs


LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True),
    st.text(st.characters(exclude_characters='"\\\n\r'), max_size=8),
)


@given(st.lists(st.tuples(LABELS, st.floats(allow_nan=False))))
def test_what_is_written_is_read(written: list[tuple[dict[str, str], float]]) -> None:
    """Commas, braces and equal signs within a label's value are its own."""
    lines = [
        "m_total{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + f"}} {value}"
        for labels, value in written
    ]
    expected = [Sample(labels, value) for labels, value in written]
    assert samples("\n".join(lines), {"m_total"}).get("m_total", []) == expected


@given(st.text() | st.lists(st.sampled_from(sorted(page("vllm_v0", "triton", "tgi").split("\n")))).map("\n".join))
def test_any_text_is_a_page_or_none(text: str) -> None:
    """A broken or hostile server costs its own row, and nothing else."""
    said = read_page(text)
    assert said is None or all(value >= 0 for value in [*said.counters.values(), *said.now.values()])


@given(st.text(st.sampled_from('vllm:num_requests_running{}="\\,0. \t'), max_size=300))
def test_nearly_a_line_is_read_or_left_out(text: str) -> None:
    """What looks like a sample and is none must not take long either: every line is bounded."""
    read_page("vllm:num_requests_running" + text)


def test_what_is_kept_is_bounded() -> None:
    """A page of one name in a million colours is read in part."""
    many = "\n".join(f'tgi_queue_size{{n="{n}"}} 1' for n in range(SAMPLES_MAX + 10))
    assert len(samples(many, {"tgi_queue_size"})["tgi_queue_size"]) == SAMPLES_MAX
    assert samples('tgi_queue_size{n="' + "x" * LINE_CHARACTERS_MAX + '"} 1', {"tgi_queue_size"}) == {}


def test_engines_are_known_by_their_own_names() -> None:
    """No page of one can be taken for another's."""
    assert [engine.name for engine in ENGINES] == ["triton", "vllm", "tgi"]
    assert len({mark for engine in ENGINES for mark in engine.marks}) == sum(len(engine.marks) for engine in ENGINES)
