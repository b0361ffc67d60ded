"""Two pages become a row: amounts of the interval between them, or nothing where more may be in it than was served."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from agent.source import Row
from agent.sources.service_page import Continuity, read_page, totals
from agent.sources.services import Service, row
from tests.agent.sources.service_pages import triton, vllm

SERVICE = Service("http", "127.0.0.1", 8000, "/metrics", "slurm/alpha/7")


def rows(*pages: str, service: Service = SERVICE) -> list[Row]:
    """Return the rows of pages one after another."""
    continuity, found = Continuity(), []
    for text in pages:
        page = read_page(text, service.model)
        assert page is not None
        found.append(row("slurm/alpha/7", service, page, continuity.moved(page)))
    return found


def requests(*pages: str) -> list[object]:
    """Return what each page says was answered since the one before."""
    return [said.get("requests") for said in rows(*pages)]


def began(at: float) -> str:
    """Return the line that says when the process began."""
    return f"process_start_time_seconds {at}\n"


def test_amounts_are_those_of_the_interval() -> None:
    """And percentiles are those of its requests, not of all that the server ever answered."""
    last = rows(vllm(1000), vllm(1010), service=replace(SERVICE, slo_seconds=0.5))[-1]
    assert last == {
        "run_id": "slurm/alpha/7",
        "engine": "vllm",
        "model": "acme/chat",
        "state": "read",
        "slo_seconds": 0.5,
        "running": 2,
        "waiting": 1,
        "kv_cache_ratio": 0.25,
        "requests": 10,
        "tokens_in": 1000,
        "tokens_out": 500,
        "first_token_seconds_p50": pytest.approx(0.175),
        "first_token_seconds_p99": pytest.approx(0.2485),
        "first_token_seconds_p99_low": 0.1,
        "first_token_seconds_p99_high": 0.25,
        "requests_failed": 2,
        "tokens_cached": 400,
        "inter_token_seconds_p50": pytest.approx(0.055),
        "inter_token_seconds_p99": pytest.approx(0.0991),
        "inter_token_seconds_p99_low": 0.01,
        "inter_token_seconds_p99_high": 0.1,
    }


def test_the_first_page_tells_no_amounts() -> None:
    """What a server answered before we looked was answered before we looked."""
    (first,) = rows(vllm(100))
    assert (first["running"], first.get("requests"), first.get("first_token_seconds_p50")) == (2, None, None)


def test_a_part_that_is_missing_for_once_is_no_spike() -> None:
    """Ten requests of the engine that is there, or nothing; never all that the other one ever answered."""
    both = [vllm(1000 + 10 * k) + ("" if k == 3 else vllm(50_000 + 10 * k, engine=1)) for k in range(6)]
    assert requests(*both) == [None, 20, 20, None, None, 20]


def test_a_part_that_begins_anew_is_not_hidden_by_another() -> None:
    """The sum grew all the same."""
    pages = [vllm(1000 + 3000 * k) + vllm(500 + 10 * k if k < 3 else 10 * (k - 2), engine=1) for k in range(6)]
    assert requests(*pages) == [None, 3010, 3010, None, 3010, 3010]


def test_a_restart_is_no_work() -> None:
    """Nor is what the new process did until we looked, which may be more than the old one ever did."""
    assert requests(began(1) + vllm(100), began(1) + vllm(110), began(2) + vllm(900), began(2) + vllm(910)) == [
        None,
        10,
        None,
        10,
    ]
    created = "vllm:prompt_tokens_created{} "
    assert requests(created + "1\n" + vllm(100), created + "2\n" + vllm(900)) == [None, None]
    assert requests(vllm(100), triton(900)) == [None, None]


def test_processes_that_take_turns_are_never_set_against_each_other() -> None:
    """Two servers behind one address: nothing is told of them until one alone has answered for five minutes."""
    first, second = (began(at) + vllm(done) for at, done in ((1, 100), (2, 50_000)))
    assert requests(*[first, first, second] * 4)[2:] == [None] * 10
    continuity = Continuity()
    seen = []
    for text in (first, second, first, *[began(1) + vllm(100 + k) for k in range(40)]):
        page = read_page(text)
        assert page is not None
        moved = continuity.moved(page)
        seen.append((continuity.is_of_several, moved is not None))
    assert seen[2] == (True, False)
    assert seen[-1] == (False, True)


def test_a_former_process_that_is_back_is_no_work() -> None:
    """Without a word of when it began, a rise past where it fell may be the first one again."""
    assert requests(vllm(50_000), vllm(100), vllm(50_010), vllm(50_020)) == [None, None, None, 10]


def test_a_counter_that_comes_with_its_first_event_began_at_nothing() -> None:
    """TGI says nothing of requests before there was one; a whole part that comes may have served before."""
    there = "tgi_queue_size 0\n"
    assert requests(there, there + "tgi_request_success 4\n", there) == [None, 4, None]
    assert requests(vllm(10), vllm(20) + vllm(5000, engine=1)) == [None, None]


def test_an_interval_without_requests_has_no_percentile() -> None:
    """Nobody waited, and so nobody waited for 0 seconds."""
    last = rows(vllm(100), vllm(100))[-1]
    assert last["requests"] == 0
    assert "first_token_seconds_p50" not in last


def test_what_lies_beyond_the_last_bucket_is_no_value() -> None:
    """It is beyond 10 s, and nobody knows how far."""
    last = rows(vllm(100, first=30.0), vllm(110, first=30.0))[-1]
    assert last["first_token_seconds_p99"] is None
    assert (last["first_token_seconds_p99_low"], last["first_token_seconds_p99_high"]) == (10.0, None)


def test_a_request_that_two_halves_touch_counts_once() -> None:
    """Prompts are the prefill half's, answers the decode half's; what a client waited for, neither knows."""
    prefill = rows(vllm(100, tokens=1), vllm(110, tokens=1), service=replace(SERVICE, role="prefill"))[-1]
    decode = rows(vllm(100, tokens=200), vllm(110, tokens=200), service=replace(SERVICE, role="decode"))[-1]
    worker = rows(vllm(100), vllm(110), service=replace(SERVICE, role="worker"))[-1]
    columns = ("requests", "tokens_in", "tokens_out", "first_token_seconds_p99")
    assert [prefill.get(name) for name in columns] == [None, 1000, None, None]
    assert [decode.get(name) for name in columns] == [10, None, 2000, None]
    assert [worker.get(name) for name in columns] == [None] * 4
    assert worker["running"] == 2


def test_a_half_that_says_so_needs_no_setting_and_one_that_does_not_is_asked_for_it() -> None:
    """SGLang has a label for it; vLLM only moves KV caches about."""
    labels = 'engine_type="decode",model_name="m"'
    pages = [
        f"sglang:num_running_reqs{{{labels}}} 1\nsglang:num_requests_total{{{labels}}} {done}\n"
        f"sglang:prompt_tokens_total{{{labels}}} {done * 100}\n"
        for done in (10, 20)
    ]
    assert (rows(*pages)[-1].get("requests"), rows(*pages)[-1].get("tokens_in")) == (10, None)
    moving = "vllm:nixl_xfer_time_seconds_count 4\n"
    assert requests(moving + vllm(100), moving + vllm(110)) == [None, None]
    declared = rows(moving + vllm(100), moving + vllm(110), service=replace(SERVICE, role="whole"))
    assert declared[-1]["requests"] == 10


def test_an_ensemble_and_its_members_count_once_where_one_is_named() -> None:
    """Its tokens are told by a member alone. Where none is named nobody knows how many requests there were."""
    ensemble = rows(triton(50), triton(80), service=replace(SERVICE, model="ensemble"))[-1]
    assert [ensemble[name] for name in ("requests", "tokens_in", "tokens_out", "model")] == [30, 3000, 1500, "ensemble"]
    unnamed = rows(triton(50), triton(80))[-1]
    assert (unnamed.get("requests"), unnamed["tokens_in"]) == (None, 3000)
    added = rows(triton(50), triton(80), service=replace(SERVICE, model="*"))[-1]
    assert added["requests"] == 120


def test_of_several_models_the_one_that_is_named_counts_alone() -> None:
    """Two runs may name one address, each with its model."""
    pages = [vllm(done, model="a") + vllm(3 * done, model="b") for done in (100, 110)]
    named = rows(*pages, service=replace(SERVICE, model="b"))[-1]
    assert (named["requests"], named["model"], named["running"]) == (30, "b", 2)
    assert (rows(*pages)[-1]["requests"], rows(*pages)[-1]["model"]) == (40, None)


def test_a_model_that_is_not_there_counts_nothing() -> None:
    """It is misspelled, or unloaded: what others answer is not its."""
    for pages in ([vllm(100), vllm(110)], [triton(50), triton(80)]):
        last = rows(*pages, service=replace(SERVICE, model="chat"))[-1]
        assert {last.get(name) for name in ("requests", "tokens_in", "tokens_out")} == {None}
        page = read_page(pages[0], "chat")
        assert page is not None
        assert page.needs == "model"


# Generated: parts of a page come, go, begin anew, swap places and move, and other processes answer.
@dataclass
class Part:
    """An engine: under which label it stands, what it counts, what of it since the last page, and whether it shows."""

    label: int
    done: int
    served: int = 0
    is_shown: bool = True


@dataclass
class Server:
    """A process with some parts."""

    began: float
    parts: list[Part]


class Site:
    """What is behind one address, and what happens to it; `tells_start` is whether its pages say when it began."""

    def __init__(self, by: random.Random) -> None:
        self._by = by
        self._clock = 1000
        self.tells_start = by.random() < 0.7
        self.servers = [self._server() for _ in range(by.choice((1, 1, 2)) if self.tells_start else 1)]

    def _server(self) -> Server:
        self._clock += 1
        counts = [self._by.choice((0, 500, 50_000)) for _ in range(self._by.randint(1, 3))]
        return Server(self._clock, [Part(label, count) for label, count in enumerate(counts)])

    def pages(self, count: int) -> Iterator[tuple[str, int, int | None]]:
        """Yield pages; with each the most that was served since the last one, and what must be told, if anything."""
        before: object = None
        for _ in range(count):
            for part in self._parts():
                part.served = self._by.choice((0, 1, 10, 3000))
                part.done += part.served
            is_calm = self._happen()
            asked = self._by.choice(self.servers)
            most = sum(part.served for part in self._parts())
            shown = [part for part in asked.parts if part.is_shown]
            now = [id(asked), *[(id(part), part.label) for part in shown]]
            is_calm = is_calm and now == before and len(self.servers) == 1
            before = now
            text = "vllm:num_requests_running 0\n" + "".join(vllm(part.done, engine=part.label) for part in shown)
            start = began(asked.began) if self.tells_start else ""
            yield start + text, most, sum(part.served for part in shown) if is_calm else None

    def _parts(self) -> list[Part]:
        return [part for server in self.servers for part in server.parts]

    def _happen(self) -> bool:
        """Let something happen, or mostly nothing; return whether nothing did."""
        server = self._by.choice(self.servers)
        part, other = self._by.choice(server.parts), self._by.choice(server.parts)
        free = 1 + max(each.label for each in server.parts)
        what = self._by.choice(["nothing"] * 6 + ["vanish", "restart", "swap", "move", "replace", "add"])
        if what == "vanish":
            part.is_shown = not part.is_shown
        elif what == "restart":
            part.done = self._by.choice((0, 5, 100_000))
            part.served += part.done
        elif what == "swap":
            part.label, other.label = other.label, part.label
        elif what == "move":
            part.label = free
        elif what == "replace" and self.tells_start:
            self.servers[self.servers.index(server)] = self._server()
        elif what == "add":
            server.parts.append(Part(free, self._by.choice((0, 40_000))))
        return what == "nothing"


def check_sequence(seed: int, pages: int = 24) -> int:
    """Read one sequence; return how many of its intervals were told. Raises where more was told than was served."""
    continuity, told = Continuity(), 0
    sequence = Site(random.Random(seed)).pages(pages)
    for place, (text, most, exact) in enumerate(sequence):
        page = read_page(text)
        assert page is not None
        moved = continuity.moved(page)
        answered = None if moved is None else totals(moved).get("requests", 0)
        assert answered is None or answered <= most, f"seed {seed}, page {place}: {answered} told, {most} served"
        assert answered is None or exact in (None, answered), f"seed {seed}, page {place}: {answered} told, not {exact}"
        told += answered is not None
    return told


def test_no_amount_is_told_that_was_not_served() -> None:
    """Whatever parts and processes do; and what can be known is mostly told. `check_sequence` takes other seeds."""
    told = [check_sequence(seed) for seed in range(120)]
    assert sum(told) > 120 * 6
