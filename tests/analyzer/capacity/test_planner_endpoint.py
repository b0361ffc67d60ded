"""A model's endpoint is asked once, perhaps twice; whatever it does, it ends, and no key is told."""

import json
from pathlib import Path

import pytest

from analyzer.capacity.planner.from_text import ANSWER_BYTES, Message, ModelSettings, complete
from analyzer.capacity.planner.problem import ModelError
from analyzer.errors import ConfigError
from analyzer.settings.settings import TABLES
from tests.analyzer.capacity.planner_recorded import Recorded, completion, endpoint

KEY = "sk-very-secret-0123456789"
QUESTION = [Message("system", "orders"), Message("user", "two tasks")]


def settings(url: str, **more: object) -> ModelSettings:
    """Return settings of a model that asks for a key."""
    return ModelSettings(**{"url": url, "model": "tiny", "key": KEY, "timeout_seconds": 5} | more)  # type: ignore[arg-type]


def failing(*answers: Recorded, **more: object) -> tuple[str, int]:
    """Return how an endpoint that gives these answers fails, and how often it was asked."""
    with endpoint(*answers) as one, pytest.raises(ModelError) as failed:
        complete(settings(one.url, **more), QUESTION, lambda _: None)
    told = repr(failed.value) + repr(failed.value.__cause__) + repr(failed.value.__context__)
    assert KEY not in told
    return str(failed.value), len(one.asked)


def test_a_question_and_its_answer() -> None:
    """The shape of OpenAI's API, which vLLM, llama.cpp and Ollama have, too."""
    with endpoint(completion("tasks: {}")) as one:
        assert complete(settings(one.url), QUESTION) == "tasks: {}"
    (asked,) = one.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    body = json.loads(asked.body)
    assert (body["model"], body["stream"], body["temperature"]) == ("tiny", False, 0)
    assert body["messages"] == [
        {"role": "system", "content": "orders"},
        {"role": "user", "content": "two tasks"},
    ]
    assert "tools" not in body


def test_without_a_key_none_is_shown() -> None:
    """A model on this machine asks for none."""
    with endpoint(completion("x")) as one:
        complete(settings(one.url, key=""), QUESTION)
    assert "Authorization" not in one.asked[0].headers


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_is_busy_is_asked_once_more(status: int) -> None:
    """And no more often: a person waits."""
    waits: list[float] = []
    with endpoint(Recorded(status), completion("yes")) as one:
        assert complete(settings(one.url), QUESTION, waits.append) == "yes"
    assert (len(one.asked), len(waits)) == (2, 1)
    words, count = failing(Recorded(status))
    assert (str(status) in words, count) == (True, 2)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_is_refused_is_not_asked_again(status: int) -> None:
    """What an endpoint says of a wrong key quotes it: only its number is told."""
    said = Recorded(status, [f'{{"error": {{"message": "Incorrect API key: {KEY}"}}}}'.encode()])
    words, count = failing(said)
    assert (str(status) in words, count) == (True, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    """It would carry the key and the description to somebody whom nobody named."""
    with endpoint(completion("stolen")) as elsewhere:
        words, count = failing(Recorded(status, headers={"Location": f"{elsewhere.url}/chat/completions"}))
        assert elsewhere.asked == []
    assert ("elsewhere" in words, count) == (True, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>welcome to the proxy</html>",
        b"",
        b"[]",
        b'"text"',
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {}}]}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": "  "}}]}',
        b'{"choices": [{"message": {"content": {"a": 1}}}]}',
        b'{"choices": {"0": 1}}',
        b'{"choices": [1]}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"choices": [{"message": {"content": "x"}',
    ],
)
def test_what_is_no_completion_is_refused(body: bytes) -> None:
    """Whatever stands at the address."""
    assert failing(Recorded(pieces=[body]))[1] == 1


def test_an_answer_that_was_cut_is_none() -> None:
    """Half a task file could be a whole one with tasks missing."""
    assert "cut off" in failing(completion("tasks:", "length"))[0]


def test_an_answer_is_bounded() -> None:
    """An endpoint that never ends fills no memory."""
    words, count = failing(Recorded(pieces=[b"x" * 65_536] * (ANSWER_BYTES // 65_536 + 2)))
    assert ("KiB" in words, count) == (True, 1)


def test_silence_ends_in_time() -> None:
    """One that takes the question and says nothing is asked twice."""
    words, count = failing(Recorded(pause_seconds=30), timeout_seconds=1)
    assert ("does not answer" in words, count) == (True, 2)


def test_a_trickle_ends_in_time() -> None:
    """Each piece comes in time, the whole does not."""
    words, _ = failing(Recorded(pieces=[b" "] * 200, pause_seconds=0.3), timeout_seconds=1)
    assert "in time" in words


def test_nobody_there() -> None:
    """The address is named, as far as it is no secret."""
    with endpoint(completion("x")) as one:
        url = one.url
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:\d+ does not answer"):
        complete(settings(url), QUESTION, lambda _: None)


def test_by_default_no_model_is_asked() -> None:
    """Off until somebody names one, and the sentence says how."""
    with pytest.raises(ConfigError, match=r"\[model\].*gpuledger\.toml"):
        ModelSettings().ready()


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ('url = "http://127.0.0.1/v1"', "go together"),
        ('model = "tiny"', "go together"),
        ('url = "ftp://x/v1"\nmodel = "m"', "not an address"),
        ('url = "https://me:secret@x/v1"\nmodel = "m"', "password"),
        ('url = "https://x/v1?key=secret"\nmodel = "m"', "not an address"),
        ('url = "http://models.example/v1"\nmodel = "m"\nkey_file = "k"', "https"),
        ('url = "https://x/v1"\nmodel = "m"\nkey = "sk-in-the-file"', "GPULEDGER_MODEL_KEY"),
        ('url = "https://x/v1"\nmodel = "m"\ntimeout_seconds = 0', "timeout_seconds"),
        ('url = "https://x/v1"\nmodel = "m"\ntemprature = 1', "unknown key"),
        (
            'base_url = "https://x/v1"\nmodel = "m"',
            "unknown key",
        ),  # as clients of OpenAI call it; mail's old key it is not
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, table: str, word: str) -> None:
    """At once, and without telling a secret."""
    file = tmp_path / "gpuledger.toml"
    file.write_text(f"[model]\n{table}\n")
    with pytest.raises(ConfigError, match=word) as refused:
        ModelSettings.read(file, TABLES, {})
    assert "sk-in-the-file" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_key_is_read_of_its_file_or_of_the_environment(tmp_path: Path) -> None:
    """And is in no representation of the settings."""
    file = tmp_path / "gpuledger.toml"
    file.write_text('[model]\nurl = "https://x/v1"\nmodel = "m"\nkey_file = "key"\n')
    (tmp_path / "key").write_text(f"{KEY}\n")
    of_file = ModelSettings.read(file, TABLES, {})
    assert of_file.secret() == KEY
    (tmp_path / "key").write_text(f"{KEY}\r\nX-Evil: 1")
    with pytest.raises(ConfigError, match="no key has") as refused:
        of_file.secret()
    assert KEY not in str(refused.value)
    told = {"GPULEDGER_MODEL_URL": "https://x/v1", "GPULEDGER_MODEL_MODEL": "m", "GPULEDGER_MODEL_KEY": KEY}
    of_environment = ModelSettings.read(None, TABLES, told)
    assert of_environment.secret() == KEY
    assert KEY not in repr(of_environment)
    with pytest.raises(ConfigError, match="leave one of them out"):
        ModelSettings.read(file, TABLES, {"GPULEDGER_MODEL_KEY": KEY})
