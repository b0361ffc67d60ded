"""What a process tells of a batch is all that the other needs of it."""

from dataclasses import replace
from io import BytesIO

from collector.pipeline.decoding.batch import decode
from collector.pipeline.decoding.decoder import Question, answer_all, answered, request_bodies, understood
from collector.pipeline.decoding.own_word import Host
from tests.collector.batches import NOW, body, gpu_rows, host_rows

MAX_BYTES, MAX_ROWS = 2**26, 10**6


def _answers(*questions: Question) -> list[object]:
    out = BytesIO()
    answer_all(BytesIO(request_bodies(questions)), out, MAX_BYTES, MAX_ROWS)
    return list(understood(out.getvalue(), questions))


def test_a_batch_is_the_same_as_if_it_were_decoded_here() -> None:
    """The writer must not be able to tell who has decoded."""
    bodies = [body(), body(2, {"gpu_samples": gpu_rows(480)}), body(3, {"host_samples": host_rows()}), body(4, {})]
    assert _answers(*(Question(one, NOW + 5) for one in bodies)) == [
        decode(one, NOW + 5).without_tables() for one in bodies
    ]


def test_what_is_wrong_is_not_told_of() -> None:
    """Whoever asked looks at it with the same code, and says the same as ever."""
    aside = body(tables={"gpu_samples": gpu_rows(3, utilization_ratio=7.0)})
    assert decode(aside, NOW).quarantined == {"gpu_samples": 3}
    broken = body()[:-9]
    late = body(sent_at=NOW + 10**13)
    assert _answers(*(Question(one, NOW) for one in (b"", b"x", broken, aside, late, body()))) == [None] * 5 + [
        decode(body(), NOW).without_tables()
    ]


def test_another_hosts_batch_is_not_told_of() -> None:
    """A key of one host says nothing of another, whoever decodes."""
    foreign = body(tables={"gpu_samples": [*gpu_rows(7), *gpu_rows(1, node="n15")]})
    other, own = (Host(node, NOW, frozenset(row["gpu_uuid"] for row in gpu_rows(7))) for node in ("n15", "n14"))
    found = _answers(Question(body(), NOW, other), Question(foreign, NOW, own), Question(body(), NOW, own))
    assert [batch is not None for batch in found] == [False, False, True]


def test_what_newer_agents_send_besides_is_counted() -> None:
    """The collector's metrics tell of columns and tables that it did not read."""
    batch = replace(decode(body(), NOW).without_tables(), ignored_columns=3, ignored_tables=2)
    assert understood(answered([batch, None]), [Question(body(), NOW)] * 2) == [batch, None]
