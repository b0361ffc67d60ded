"""Answers of servers are read fast where they are written as Go writes them, and right in any case."""

import json
import math

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import ServerError
from collector.prometheus.client import SeriesAnswer, exported_samples, matrix

TIMES = st.integers(1_420_070_400_000, 4_000_000_000_000)
VALUES = st.floats(width=64) | st.sampled_from([float("nan"), float("inf"), -math.inf, 0.0, -0.0, 5e-324, 1.7e308])
LABELS = st.dictionaries(
    st.text(min_size=1), st.text() | st.sampled_from(['],"values":[[', "]]", '"', "\\", "\n"]), max_size=4
)
SERIES = st.lists(st.tuples(LABELS, st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=6)), max_size=5)


def written(value: float) -> str:
    """Return a value as Prometheus writes it."""
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)


def body(series: list[tuple[dict[str, str], list[tuple[int, float]]]], compact: bool = True) -> bytes:
    """Return an answer of /api/v1/query."""
    result = [
        {"metric": labels, "values": [[at / 1000, written(value)] for at, value in samples]}
        for labels, samples in series
    ]
    said = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return orjson.dumps(said) if compact else json.dumps(said).encode()


def plain(answer: SeriesAnswer) -> list[tuple[dict[str, str], list[tuple[int, float | None]]]]:
    """Return an answer as Python has it; what is no finite number is None."""
    told, at = [], 0
    for labels, length in zip(answer.labels, answer.lengths, strict=True):
        values = [None if v is None or not math.isfinite(v) else v for v in answer.values.slice(at, length).to_pylist()]
        told.append((labels, list(zip(answer.times.slice(at, length).to_pylist(), values, strict=True))))
        at += length
    assert at == len(answer.times) == len(answer.values)
    return told


@given(SERIES)
def test_an_answer_is_read_as_it_was_meant(series: list[tuple[dict[str, str], list[tuple[int, float]]]]) -> None:
    """The short way through CSV and the long way through JSON say the same, whatever the labels hold."""
    meant = [
        (labels, [(at, value if math.isfinite(value) else None) for at, value in samples]) for labels, samples in series
    ]
    assert plain(matrix(body(series))) == meant
    assert plain(matrix(body(series, compact=False))) == meant


@given(SERIES)
def test_an_export_is_read_as_it_was_meant(series: list[tuple[dict[str, str], list[tuple[int, float]]]]) -> None:
    """VictoriaMetrics writes a series a line, and what is no number as NaN or null."""
    said, meant = [], []
    for labels, samples in series:
        line = {"metric": labels, "values": [v for _, v in samples], "timestamps": [at for at, _ in samples]}
        said.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
        meant.append((labels, [(at, value if math.isfinite(value) else None) for at, value in samples]))
    assert plain(exported_samples(b"\n".join(said) + b"\n")) == meant


def test_native_histograms_beside_values_are_passed_over() -> None:
    """A series may have both, since its metric was changed; the floats are what we read."""
    said = (
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1763000000,"1"]],'
    )
    said += b'"histograms":[[1763000001,{"count":"1","sum":"1"}]]},{"metric":{"a":"c"},"values":[[1763000000,"2"]]}]}}'
    assert [values for _, values in plain(matrix(said))] == [[(1763000000000, 1.0)], [(1763000000000, 2.0)]]


@pytest.mark.parametrize("beside", [b',"warnings":["store-2 is gone"]}', b',"isPartial":true}'])
def test_an_answer_that_lacks_a_part_is_refused(beside: bytes) -> None:
    """Thanos and clusters answer with what they reached: a day without half of its hosts would be kept for ever."""
    with pytest.raises(ServerError, match="could not read all"):
        matrix(body([({"a": "b"}, [(1_763_000_000_000, 1.5)])])[:-1] + beside)


def test_numbers_that_no_float_is_exactly() -> None:
    """DCGM's word for "none" is a whole number of 64 bits, which Arrow refuses to round by itself."""
    said = b'{"metric":{"a":"b"},"values":[9223372036854775794,1],"timestamps":[1763000000000,1763000001000]}'
    assert exported_samples(said).values.equals(pa.array([9223372036854775794.0, 1.0]))


def test_nothing_is_an_answer() -> None:
    """A server without any such series says so."""
    assert plain(matrix(body([]))) == []
    assert plain(exported_samples(b"")) == []


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>a proxy's page</html>",
        b"[]",
        b'{"status":"error","error":"no"}',
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":1},"values":[[1,"1"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["x","1"]]}]}}',
    ],
)
def test_what_is_no_answer_is_said_to_be_none(said: bytes) -> None:
    """Half of an answer would be a history with holes that nobody sees."""
    with pytest.raises(ServerError):
        matrix(said)


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_answer_that_was_cut_short_is_refused(cut: int) -> None:
    """A connection that breaks must not end a day early."""
    whole = body([({"a": "b"}, [(1_763_000_000_000, 1.5)])])
    with pytest.raises(ServerError):
        matrix(whole[:-cut])


@pytest.mark.parametrize(
    "said",
    [
        b"no",
        b'{"metric":{},"values":[1]}',
        b'{"metric":{},"values":[1],"timestamps":[1,2]}',
        b'{"metric":{},"values":["1"],"timestamps":[1]}',
        b'{"metric":{},"values":[1],"timesta',
    ],
)
def test_a_line_that_is_none_is_refused(said: bytes) -> None:
    """As above."""
    with pytest.raises(ServerError):
        exported_samples(said)
