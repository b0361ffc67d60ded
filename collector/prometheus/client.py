"""Ask a Prometheus or VictoriaMetrics over HTTP, and read its answers to Arrow.

It is bounded in time, bytes and repetitions, foreign failures renamed. One connection is kept from question to question
(agent/connection.py). No Python object is made for every sample: a matrix is `[[1763000000.123,"0.5"],…]` a series.
Without its brackets and quotes that is a CSV file, which Arrow reads four times as fast as any JSON parser makes
objects of it. A server that writes it in another way is read as JSON.
"""

import base64
import io
import itertools
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
import pyarrow as pa
import pyarrow.csv

from agent.connection import Connection, address, pause_seconds
from collector.errors import ServerError, TooMuchError
from collector.pipeline.decoding.validation import Array, pc

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
        raise ServerError(f"the server's answer is not a matrix of samples: {str(said)[:200]}")
    _check_is_whole(said, data.get("result"))
    try:
        labels = [_labels(series["metric"]) for series in data["result"]]
        told = [series.get("values") or [] for series in data["result"]]
        flat = list(itertools.chain.from_iterable(itertools.chain.from_iterable(told)))
        if len(flat) != 2 * sum(map(len, told)):
            raise ValueError("a sample is not a pair")
        times = pa.array(flat[0::2], pa.float64())
        texts = pc.if_else(
            pc.is_in(pa.array(flat[1::2], pa.string()), pa.array(_NAN)), None, pa.array(flat[1::2], pa.string())
        )
        values = pc.cast(texts, pa.float64())
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise _not_understood(error) from error
    return SeriesAnswer(labels, [len(one) for one in told], _milliseconds(times), values)


def _check_is_whole(said: Mapping[str, Any], result: object) -> None:
    """Refuse an answer without what a store has that is away: what is not there would pass for what is not."""
    if (said.get("warnings") and not _is_before_stores(said["warnings"], result)) or said.get("isPartial"):
        raise ServerError(f"the server could not read all that it has: {str(said.get('warnings'))[:200]}")


def _is_before_stores(warnings: object, result: object) -> bool:
    """Whether warnings say no more than that no store reaches so far back: Thanos then answers without a series."""
    return (
        isinstance(warnings, list)
        and not result
        and all(isinstance(one, str) and one.startswith("No StoreAPIs matched") for one in warnings)
    )


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
        raise ServerError("the server's answer is not a JSON object")
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


def _one_after_another(answers: Sequence[SeriesAnswer]) -> SeriesAnswer:
    """Return the series of several answers as one answer's; a series may then come more than once."""
    return SeriesAnswer(
        [labels for one in answers for labels in one.labels],
        [length for one in answers for length in one.lengths],
        _joined([one.times for one in answers], pa.int64()),
        _joined([one.values for one in answers], pa.float64()),
    )


def _not_understood(error: Exception) -> ServerError:
    return ServerError(f"the server's answer cannot be understood: {str(error)[:200]}")


_COMPLAINT_BYTES = 4096
_TOO_BUSY = frozenset({429, 500, 502, 503, 504})  # worth another try; what else is refused stays refused
# What a server answers that does not give so much at once: too many samples, points, bytes or seconds for a query.
# Sources: Prometheus, promql/engine.go (ErrTooManySamples, 422) and web/api/v1 (11,000 points, 400); VictoriaMetrics,
# -search.max… (422); Mimir, err-mimir-max-… (422), "larger than max" of its parts (500); proxies (413, 504).
_TOO_MUCH = frozenset({413, 422, 504})
_LIMIT = re.compile(
    rb"maximum resolution|too many (?:points|samples)|-search\.max|-max-|exceed|timed? ?out|limit|larger than max"
)
_MATCHERS = re.compile(r'(?:[A-Za-z_]\w*(?:=~|!~|!=|=)"(?:[^"\\]|\\.)*"(?:,(?!$)|$))+')
_SHORTEST_MS = 120_000  # a question about less time is not cut again
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0

_Query = Sequence[tuple[str, str | int | float]]


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server is, and how we show who we are. A secret is a file, read for every connection."""

    url: str  # with the path before /api/v1, where there is one
    token: Path | None = None  # file of a bearer token
    user: str | None = None  # of basic authentication, whose password is in the file `password`
    password: Path | None = None
    ca: Path | None = None  # file of the certificates to trust instead of the system's
    headers: Mapping[str, str] = field(default_factory=dict)  # such as X-Scope-OrgID
    timeout_seconds: float = 120.0  # of one answer
    attempts: int = 4  # of one question, with growing pauses
    most_bytes: int = 512 * 2**20  # of one answer
    match: str = ""  # matchers that every series must meet: cluster="east"

    def __post_init__(self) -> None:
        if self.match and not _MATCHERS.fullmatch(self.match):
            raise ServerError(f'{self.match!r} is not a matcher of labels; use a form like cluster="east"')
        try:
            place = address(self.url)
            if place.query or place.fragment:
                raise ValueError("a server's address must not contain a query")
        except ValueError as error:
            words = f"{self.url!r} is not a valid server address; use a form like http://prometheus:9090"
            raise ServerError(words) from error
        if place.username or place.password:
            raise ServerError("an address must not contain a password, which others could read; put it in a file")


class Client:
    """One server. Use it in one thread; close it."""

    def __init__(self, server: Server, sleep: Callable[[float], None] = time.sleep) -> None:
        self.server = server
        self.received_bytes = 0
        self.repeated_questions = 0
        self._place = urlsplit(server.url)
        self._sleep = sleep
        self._connection: Connection | None = None
        self._exports: bool | None = None
        self._longest: int | None = None  # milliseconds that the server answers at once, where it refused more

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @property
    def exports(self) -> bool:
        """Whether the server tells samples as they are stored by /api/v1/export, as VictoriaMetrics does.

        Raises:
            ServerError: it cannot be reached.
        """
        if self._exports is None:
            nothing: _Query = [("match[]", '{__name__="gpuledger_is_this_victoriametrics"}'), ("start", 0), ("end", 1)]
            status, _ = self._answered("/api/v1/export", nothing, refusals=(400, 404, 405, 422))
            self._exports = status == HTTPStatus.OK
        return self._exports

    def another(self) -> "Client":
        """Return a client of the same server for another thread."""
        found = Client(self.server, self._sleep)
        found._exports, found._longest = self._exports, self._longest
        return found

    def selector(self, text: str) -> str:
        """Return a selector of series with the matchers that every one must meet."""
        if not self.server.match:
            return text
        return f"{text[:-1]},{self.server.match}}}" if text.endswith("}") else f"{text}{{{self.server.match}}}"

    def samples(self, selector: str, since: int, until: int) -> SeriesAnswer:
        """Return all samples of a selector as they were stored, between two times, milliseconds UTC, both told.

        Stale markers are not told, or as NaN. What the server does not tell at once is asked for in parts; a sample at
        the edge of two parts may come twice.

        Raises:
            ServerError: the server cannot be reached, says no, or says what cannot be read.
        """
        return self._in_parts(partial(self._samples, self.selector(selector)), since, until, 1)

    def _samples(self, selector: str, since: int, until: int) -> SeriesAnswer:
        if self.exports:
            query: _Query = [
                ("match[]", selector),
                ("start", since / 1000),
                ("end", until / 1000),
                ("reduce_mem_usage", 1),
            ]
            return exported_samples(self._read("/api/v1/export", query))
        # Prometheus 2 tells a sample at the very start of a range, Prometheus 3 does not: a millisecond more is asked.
        ask: _Query = [
            ("query", f"{selector}[{until - since + 1}ms]"),
            ("time", until / 1000),
            ("timeout", self._patience),
        ]
        return matrix(self._read("/api/v1/query", ask))

    def evaluated(self, expression: str, since: int, until: int, step: int) -> SeriesAnswer:
        """Return an expression's values at since, since + step, … until, milliseconds UTC; exceptions as `samples`."""
        return self._in_parts(partial(self._evaluated, expression, step), since, until, step)

    def _in_parts(self, ask: Callable[[int, int], SeriesAnswer], since: int, until: int, step: int) -> SeriesAnswer:
        """Return what is asked of a span, in parts where the server does not answer so much at once."""
        if self._longest is None or until - since <= self._longest:
            try:
                return ask(since, until)
            except TooMuchError as error:
                if until - since <= max(_SHORTEST_MS, step):
                    words = f"{error}, not even for {(until - since) / 1000:g} s; use --step 600, or raise its limit"
                    raise TooMuchError(words) from error
                self._longest = (until - since) // 2
        middle = since + max(1, (until - since) // 2 // step) * step
        return _one_after_another([self._in_parts(ask, *part, step) for part in ((since, middle), (middle, until))])

    def _evaluated(self, expression: str, step: int, since: int, until: int) -> SeriesAnswer:
        ask: _Query = [
            ("query", expression),
            ("start", since / 1000),
            ("end", until / 1000),
            ("step", step / 1000),
            ("timeout", self._patience),
        ]
        return matrix(self._read("/api/v1/query_range", ask))

    def names(self, label: str, selector: str, since: int, until: int) -> list[str]:
        """Return the values of a label among the series of a selector; times and exceptions as `samples`."""
        path = f"/api/v1/label/{label}/values"
        found = self.json(path, [("match[]", self.selector(selector)), ("start", since / 1000), ("end", until / 1000)])
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    def json(self, path: str, query: _Query = ()) -> Any:  # noqa: ANN401 - JSON
        """Return what is under `data` of an answer; exceptions as `samples`."""
        try:
            said = orjson.loads(self._read(path, query, get=True))
        except orjson.JSONDecodeError as error:
            raise ServerError(f"{self.server.url}{path} is not Prometheus: its answer is not JSON") from error
        if not isinstance(said, dict):
            return None
        _check_is_whole(said, said.get("data"))
        return said.get("data")

    @property
    def _patience(self) -> str:
        return f"{self.server.timeout_seconds:g}s"

    def _read(self, path: str, query: _Query, *, get: bool = False) -> bytes:
        return self._answered(path, query, get=get)[1]

    def _answered(
        self, path: str, query: _Query, *, get: bool = False, refusals: tuple[int, ...] = ()
    ) -> tuple[int, bytes]:
        """Ask until there is an answer, or patience ends. What is refused for good is not asked again."""
        for attempt in range(1, self.server.attempts + 1):
            try:
                status, said = self._ask(path, query, get)
                if status == HTTPStatus.OK or status in refusals:
                    return status, said
                if status not in _TOO_BUSY or attempt == self.server.attempts:
                    is_too_much = status in _TOO_MUCH or (status in (400, 429, 500, 503) and _LIMIT.search(said))
                    raise (TooMuchError if is_too_much else ServerError)(self._refused(path, status, said))
            except OSError as error:
                self.close()
                if attempt == self.server.attempts or isinstance(error, ssl.SSLError):
                    raise self._lost(error) from error
            self.repeated_questions += 1
            self._sleep(pause_seconds(attempt - 1, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
        raise AssertionError("BUG: a last attempt that neither returned nor raised")

    def _ask(self, path: str, query: _Query, get: bool) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._connected()
        target, form = self._place.path.rstrip("/") + path, urlencode(query)
        headers = {"Accept-Encoding": "identity", **self.server.headers, **self._secret()}
        most, seconds = self.server.most_bytes, 2 * self.server.timeout_seconds  # until it comes, and until it has come
        if get:
            target = f"{target}?{form}" if form else target
            reply = connection.reply("GET", target, None, headers, most_bytes=most, whole_seconds=seconds)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            reply = connection.reply("POST", target, form, headers, most_bytes=most, whole_seconds=seconds)
        if not reply.is_whole:
            raise TooMuchError(f"{self.server.url} sent more than {most} bytes at once")
        self.received_bytes += len(reply.body)
        return reply.status, reply.body

    def _connected(self) -> Connection:
        try:
            return Connection(self.server.url, self.server.timeout_seconds, authority=self.server.ca)
        except OSError as error:
            raise ServerError(f"the certificates in {self.server.ca} cannot be used: {error}") from error

    def _secret(self) -> dict[str, str]:
        if self.server.token is not None:
            return {"Authorization": f"Bearer {_secret_in(self.server.token)}"}
        if self.server.user is None:
            return {}
        password = _secret_in(self.server.password) if self.server.password else ""
        pair = base64.b64encode(f"{self.server.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def _refused(self, path: str, status: int, said: bytes) -> str:
        try:
            answer = orjson.loads(said)
            words = str(answer["error"]) if isinstance(answer, dict) and "error" in answer else ""
        except orjson.JSONDecodeError:
            words = ""
        words = words or said[:_COMPLAINT_BYTES].decode(errors="replace").strip() or "-"
        hint = "; use --token-file, or --user and --password-file" if status in (401, 403) else ""
        return f"{self.server.url}{path} refuses with {status}: {words[:500]}{hint}"

    def _lost(self, error: Exception) -> ServerError:
        return ServerError(f"{self.server.url} cannot be reached: {error or type(error).__name__}")


def _secret_in(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ServerError(f"the secret in {file} cannot be read: {why}") from error
