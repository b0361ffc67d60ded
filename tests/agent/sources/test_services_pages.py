"""Pages of real servers say what they say, and no page stops the agent."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.errors import UnreadError
from agent.sources.service_page import (
    BETWEEN_TOKENS,
    FIRST_RESPONSE,
    LINE_BYTES_MAX,
    SAMPLES_MAX,
    Continuity,
    Sample,
    buckets,
    read_page,
    samples,
    totals,
    wanted_lines,
)
from agent.wire.serving import ENGINES
from tests.agent.sources.service_pages import ENGINE_PAGES

DATA = Path(__file__).parent / "data" / "services"


def page(*names: str) -> str:
    """Return captured pages as one."""
    return "".join((DATA / f"{name}.txt").read_text("utf-8") for name in names)


def counters(text: str) -> tuple[str, dict[str, float]]:
    """Return the engine of a page and what it has counted."""
    said = read_page(text)
    assert said is not None
    return said.engine, totals(said.series)


def test_vllm_v0() -> None:
    """One request of five tokens in and seven out, its first token after 0.313 s."""
    said = read_page(page("vllm_v0"))
    assert said is not None
    assert (said.engine, totals(said.series)) == ("vllm", {"requests": 1, "tokens_in": 5, "tokens_out": 7})
    assert said.now == {"running": 0, "waiting": 0, "kv_cache_ratio": 0}
    first_token = buckets(said.series, FIRST_RESPONSE)
    assert first_token is not None
    assert (first_token[0.25], first_token[0.5], first_token[math.inf]) == (0, 1, 1)


def test_vllm_v1() -> None:
    """Ten requests; the cache has another name since, and every series has its engine."""
    assert counters(page("vllm_v1")) == ("vllm", {"requests": 10, "tokens_in": 80, "tokens_out": 500})


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
    assert totals(said.series) == {"requests": 7, "requests_failed": 9}, "a client that went away is neither"


def test_triton() -> None:
    """Three requests over eight models; of tokens it knows nothing, and so neither do we."""
    said = read_page(page("triton"))
    assert said is not None
    assert (said.engine, totals(said.series), dict(said.now)) == (
        "triton",
        {"requests": 3, "requests_failed": 0},
        {"waiting": 0},
    )
    assert said.needs == "model", "eight models, or an ensemble of seven"


def test_triton_with_tensorrt_llm() -> None:
    """The backend knows its queue and its cache better than the server in front of it."""
    said = read_page(page("triton", "tensorrt_llm"))
    assert said is not None
    assert (said.engine, said.now) == ("triton", {"running": 1, "waiting": 1, "kv_cache_ratio": 0.4875})


def test_triton_with_vllm() -> None:
    """The page has both names; the server's word is the server's, the tokens are the backend's."""
    expected = {"requests": 3, "requests_failed": 0, "tokens_in": 5, "tokens_out": 7}
    assert counters(page("triton", "vllm_v0")) == ("triton", expected)


def test_tgi() -> None:
    """Its tokens are the sums of histograms, and it has no time to the first one."""
    said = read_page(page("tgi"))
    assert said is not None
    assert (said.engine, totals(said.series)) == ("tgi", {"requests": 40, "tokens_in": 9000, "tokens_out": 8123})
    assert (said.now, buckets(said.series, FIRST_RESPONSE)) == ({"running": 5, "waiting": 2}, None)


_NO_HISTOGRAMS = {FIRST_RESPONSE, BETWEEN_TOKENS}
_NOT_TOLD = {
    "llamacpp": {"requests", "requests_failed", "tokens_cached", *_NO_HISTOGRAMS},
    "tei": {"tokens_out", "tokens_cached", *_NO_HISTOGRAMS},
    "tgi": {"tokens_cached", FIRST_RESPONSE},
    "triton": {"tokens_cached", *_NO_HISTOGRAMS},
    "tensorrt_llm": {"tokens_cached"},
    "lmdeploy": {"tokens_cached"},
}


@pytest.mark.parametrize("engine", sorted(ENGINE_PAGES))
def test_every_engine_says_what_it_did(engine: str) -> None:
    """Ten requests of 100 tokens in and 50 out, as each of them writes that; what one does not tell is not there."""
    continuity = Continuity()
    first, second = (read_page(ENGINE_PAGES[engine](done)) for done in (10, 20))
    assert first is not None
    assert second is not None
    assert continuity.moved(first) is None
    moved = continuity.moved(second)
    assert moved is not None
    models = 4 if engine == "triton" else 1
    expected = {
        "requests": 10 * models,
        "tokens_in": 1000,
        "tokens_out": 500,
        "requests_failed": 2 * models,
        "tokens_cached": 400,
    }
    lacks = _NOT_TOLD.get(engine, set())
    assert second.engine == engine
    assert totals(moved) == {name: value for name, value in expected.items() if name not in lacks}
    running, waiting = (1, 2) if engine == "tei" else (2, second.now["waiting"])
    assert (second.now.get("running", 1), second.now["waiting"]) == (running, waiting)
    assert second.now.get("kv_cache_ratio", 0.25) == 0.25
    assert (buckets(moved, FIRST_RESPONSE) is not None) == (FIRST_RESPONSE not in lacks)
    assert (buckets(moved, BETWEEN_TOKENS) is not None) == (BETWEEN_TOKENS not in lacks)


@pytest.mark.parametrize("all_ranks", [False, True])
def test_ranks_of_one_queue_are_one_and_data_parallel_ranks_are_added(*, all_ranks: bool) -> None:
    """With data-parallel attention the first rank of the second group is not rank 0 of all."""
    lines = [
        f'sglang:num_{what}_reqs{{dp_rank="{rank // 2}",model_name="m",pp_rank="0",tp_rank="{rank}"}} {rank // 2 + 3}.0'
        for rank in range(4)
        for what in ("running", "queue")
        if all_ranks or rank % 2 == 0
    ]
    said = read_page("\n".join(lines))
    assert said is not None
    assert said.now == {"running": 7, "waiting": 7}


def test_priorities_are_parts_of_a_queue_that_is_told_as_a_whole_too() -> None:
    """SGLang, where it schedules by priority: added up, each request waits twice; and a new priority is no new part."""

    def page(*priorities: int) -> str:
        return "".join(
            f'sglang:num_{queue}_reqs{{model_name="m",tp_rank="0",priority="{name}"}} {count}\n'
            for queue in ("running", "queue")
            for name, count in [("", sum(priorities)), *enumerate(priorities)]
        )

    one, two = read_page(page(3)), read_page(page(3, 2))
    assert one is not None
    assert two is not None
    assert one.now == {"running": 3, "waiting": 3}
    assert two.now == {"running": 5, "waiting": 5}
    assert one.parts == two.parts


def test_labels_are_unescaped() -> None:
    """A model's name may have backslashes and quotes."""
    said = read_page('vllm:num_requests_running{model_name="C:\\\\models\\\\chat \\"v2\\""} 1\n')
    assert said is not None
    assert said.model == 'C:\\models\\chat "v2"'


def test_exemplars_and_times_are_passed_over() -> None:
    """OpenMetrics puts them behind the value."""
    lines = 'vllm:num_requests_running 1 1.7e9\nvllm:prompt_tokens_total 5 # {trace_id="a b"} 0.2 1.7e9\n# EOF\n'
    assert counters(lines) == ("vllm", {"tokens_in": 5})


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.integers(0, 5000))
def test_a_page_is_read_alike_however_it_comes(cuts: list[int], others: int) -> None:
    """In pieces of any size, among any number of a web framework's lines, with the ends of lines of Windows too."""
    noise = "".join(f'http_seconds_bucket{{handler="/v1/{n}",le="0.1"}} {n}\n' for n in range(others % 50))
    whole = (noise + page("vllm_v1") + noise).encode()
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(whole[start : start + cut])
        start += cut
    text = wanted_lines([*pieces, whole[start:]])
    assert read_page(text) == read_page(page("vllm_v1"))
    assert read_page(wanted_lines([whole.replace(b"\n", b"\r\n")])) == read_page(page("vllm_v1"))


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (b"", "empty"),
        (b"# HELP tgi_request_count Total number of requests\n\n", "empty"),
        (b"<html>", "foreign"),
        (b'[{"iter": 3}]', "foreign"),
        (b"node_load1 0.5", "foreign"),
        (b'vllm:num_requests_running{model_name="' + b"x" * LINE_BYTES_MAX + b'"} 1', "too_large"),
        (b"tgi_queue_size 1\n" * (SAMPLES_MAX + 1), "too_large"),
    ],
)
def test_what_has_no_lines_of_an_engine_says_why(text: bytes, state: str) -> None:
    """A page that nobody has asked anything yet is another thing than the wrong port."""
    with pytest.raises(UnreadError) as refused:
        wanted_lines([text])
    assert refused.value.state == state


def test_a_label_of_a_megabyte_on_another_line_is_nothing_to_us() -> None:
    """vLLM once put its whole configuration into one."""
    huge = b'vllm:cache_config_info{all="' + b"x" * 2**20 + b'"} 1\n'
    pieces = [huge[start : start + 1000] for start in range(0, len(huge), 1000)]
    assert wanted_lines([*pieces, b"tgi_queue_size 1\n"]) == "tgi_queue_size 1"


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
    assert said is None or all(value >= 0 for value in [*said.series.values(), *said.now.values()])


@given(st.text(st.sampled_from('vllm:num_requests_running{}="\\,0. \t'), max_size=300))
def test_nearly_a_line_is_read_or_left_out(text: str) -> None:
    """What looks like a sample and is none must not take long either: every line is bounded."""
    read_page("vllm:num_requests_running" + text)


def test_what_is_kept_is_bounded() -> None:
    """A page of one name in a million colours is read in part."""
    many = "\n".join(f'tgi_queue_size{{n="{n}"}} 1' for n in range(SAMPLES_MAX + 10))
    assert len(samples(many, {"tgi_queue_size"})["tgi_queue_size"]) == SAMPLES_MAX
    assert samples('tgi_queue_size{n="' + "x" * LINE_BYTES_MAX + '"} 1', {"tgi_queue_size"}) == {}


def test_engines_are_known_by_their_own_names() -> None:
    """No page of one can be taken for another's."""
    assert len({mark for engine in ENGINES for mark in engine.marks}) == sum(len(engine.marks) for engine in ENGINES)
