"""Answers of Prometheus and VictoriaMetrics to Arrow, without a Python object for every sample.

A matrix is `[[1763000000.123,"0.5"],…]` a series. Without its brackets and quotes that is a CSV file, which Arrow reads
four times as fast as any JSON parser makes objects of it. A server that writes it in another way is read as JSON.
"""

import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv

from collector.errors import ServerError
from collector.pipeline.decoding.range_checks import Array, pc

_LATEST = 4_102_444_800_000  # milliseconds: 2100
_BLOCK_BYTES = 4 * 2**20  # that Arrow parses at a time

_HEAD = re.compile(rb'\{"status":"success",(?:"isPartial":false,)?"data":\{"resultType":"matrix","result":\[')
_VALUES = b',"values":[['
_NO_NUMBER = re.compile(rb"NaN|[+-]?Inf(?:inity)?")
_NAN = ("NaN", "+Inf", "-Inf", "Inf", "null")


@dataclass(frozen=True, slots=True)
class SeriesAnswer:
    """Series one after another: the labels of each, how many samples it has, and these in order.

    `times` are milliseconds UTC (int64), `values` float64, null or NaN where the sample says nothing.
    """

    labels: Sequence[dict[str, str]]
    lengths: Sequence[int]
    times: Array
    values: Array


def matrix(body: bytes) -> SeriesAnswer:
    """Return the samples of an answer of /api/v1/query or /api/v1/query_range.

    Raises:
        ServerError: it is no such answer.
    """
    return _fast_matrix(body) or _slow_matrix(body)


def exported_samples(body: bytes) -> SeriesAnswer:
    """Return the samples of an answer of VictoriaMetrics' /api/v1/export.

    Raises:
        ServerError: it is no such answer.
    """
    labels: list[dict[str, str]] = []
    lengths: list[int] = []
    times: list[Array] = []
    values: list[Array] = []
    for line in filter(None, body.splitlines()):
        said = _line(line)
        try:
            stamps, told = pa.array(said["timestamps"], pa.int64()), _numbers(said["values"])
            if len(stamps) != len(told) or not _is_plausible(stamps):
                raise ServerError(f"a series has {len(stamps)} times and {len(told)} values, or odd times")
            labels.append(_labels(said["metric"]))
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise _not_understood(error) from error
        lengths.append(len(stamps))
        times.append(stamps)
        values.append(told)
    return SeriesAnswer(labels, lengths, _joined(times, pa.int64()), _joined(values, pa.float64()))


def _fast_matrix(body: bytes) -> SeriesAnswer | None:
    """Return the samples of an answer written as Go writes it, or None where it is not."""
    head = _HEAD.match(body)
    if head is None:
        return None
    labels: list[dict[str, str]] = []
    texts: list[bytes] = []
    at = head.end()
    while body.startswith(b'{"metric":', at):
        begin = body.find(_VALUES, at)
        end = body.find(b"]]", begin)
        if begin < 0 or end < 0:
            return None
        try:
            labels.append(_labels(orjson.loads(body[at + 10 : begin])))
        except (orjson.JSONDecodeError, ServerError):
            return None
        texts.append(body[begin + len(_VALUES) : end].replace(b"],[", b"\n"))
        at = end + 3  # behind ]]}
        if body[at - 1 : at] != b"}":
            return None  # native histograms stand beside the values
        at += body.startswith(b",", at)
    if not _ends_well(head[0] + body[at:]):
        return None
    lengths = [text.count(b"\n") + 1 for text in texts]
    if not texts:
        return SeriesAnswer([], [], pa.array([], pa.int64()), pa.array([], pa.float64()))
    table = _csv(b"\n".join(texts).translate(None, b'"'))
    if table is None or table.num_rows != sum(lengths):
        return None
    return SeriesAnswer(labels, lengths, _milliseconds(_whole(table["time"])), _whole(table["value"]))


def _ends_well(frame: bytes) -> bool:
    """Whether an answer without its series is whole, and says nothing of parts that it could not read."""
    try:
        said = orjson.loads(frame)
    except orjson.JSONDecodeError:
        return False
    return not (said.get("warnings") or said.get("isPartial"))


def _csv(text: bytes) -> pa.Table | None:
    try:
        return pyarrow.csv.read_csv(
            io.BytesIO(text),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=["time", "value"]
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={"time": pa.float64(), "value": pa.float64()}, null_values=list(_NAN)
            ),
        )
    except pa.ArrowException:
        return None


def _slow_matrix(body: bytes) -> SeriesAnswer:
    said = _json(body)
    data = said.get("data")
    if said.get("status") != "success" or not isinstance(data, dict) or data.get("resultType") != "matrix":
        raise ServerError(f"the server's answer is no matrix of samples: {str(said)[:200]}")
    if said.get("warnings") or said.get("isPartial"):
        raise ServerError(f"the server could not read all that it has: {str(said.get('warnings'))[:200]}")
    try:
        labels = [_labels(series["metric"]) for series in data["result"]]
        told = [series.get("values") or [] for series in data["result"]]
        flat = list(itertools.chain.from_iterable(itertools.chain.from_iterable(told)))
        if len(flat) != 2 * sum(map(len, told)):
            raise ValueError("a sample is no pair")
        times = pa.array(flat[0::2], pa.float64())
        texts = pc.if_else(
            pc.is_in(pa.array(flat[1::2], pa.string()), pa.array(_NAN)), None, pa.array(flat[1::2], pa.string())
        )
        values = pc.cast(texts, pa.float64())
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise _not_understood(error) from error
    return SeriesAnswer(labels, [len(one) for one in told], _milliseconds(times), values)


def _line(line: bytes) -> dict[str, Any]:
    """Return one line of an export. VictoriaMetrics writes stale markers as NaN, which is no JSON."""
    labels, between, numbers = line.rpartition(b'},"values":[')
    if b"N" not in numbers and b"I" not in numbers:
        return _json(line)
    return _json(labels + between + _NO_NUMBER.sub(b"null", numbers))


def _numbers(said: list[float | None]) -> Array:
    """Return values as floats; Arrow refuses whole numbers that no float is exactly, as DCGM's for "none"."""
    try:
        return pa.array(said, pa.float64())
    except pa.ArrowInvalid:
        if not all(value is None or isinstance(value, int | float) for value in said):
            raise
        return pa.array([None if value is None else float(value) for value in said], pa.float64())


def _json(text: bytes) -> dict[str, Any]:
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _not_understood(error) from error
    if not isinstance(said, dict):
        raise ServerError("the server's answer is no JSON object")
    return said


def _labels(said: object) -> dict[str, str]:
    if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
        raise ServerError("the server's answer has a series without labels")
    return said


def _milliseconds(seconds: Array) -> Array:
    """Return times as whole milliseconds.

    Raises:
        ServerError: there is none, or it is not of this century.
    """
    found = pc.round(pc.multiply(seconds, 1000.0))
    if not _is_plausible(found):
        raise ServerError("the server's answer has a sample without a time, or of another century")
    return pc.cast(found, pa.int64())


def _is_plausible(times: Array) -> bool:
    inside = pc.and_(pc.greater_equal(times, 0), pc.less(times, _LATEST))
    return pc.all(pc.fill_null(inside, False)).as_py() is not False  # of none it says nothing


def _joined(arrays: Sequence[Array], kind: pa.DataType) -> Array:
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def _whole(array: Array) -> Array:
    return array.combine_chunks()


def _not_understood(error: Exception) -> ServerError:
    return ServerError(f"the server's answer cannot be understood: {str(error)[:200]}")
