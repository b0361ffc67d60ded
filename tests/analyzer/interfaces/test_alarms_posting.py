"""What is made of a receiver that does not answer as one."""

import json
import socket
import threading

import pytest

from analyzer.interfaces.alarms.alarm import Alarm, chat_body, event_text, webhook_body
from analyzer.interfaces.alarms.hook import LaterError, post
from tests.waiting import PATIENCE_SECONDS


def test_who_does_not_speak_http_is_asked_again_later() -> None:
    """A load balancer that hands the port to something else for a minute must cost no alarm, and end no thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            with listening.accept()[0] as peer:
                peer.recv(65536)
                peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")

        thread = threading.Thread(target=once)
        thread.start()
        with pytest.raises(LaterError, match=r"^127\.0\.0\.1:[0-9]+ does not answer: SSH-2.0-OpenSSH_9.9"):
            post(f"http://127.0.0.1:{listening.getsockname()[1]}/hook", b"{}", {})
        thread.join(PATIENCE_SECONDS)


ALARM = Alarm(
    "f-7kq2", "idle/tail", True, "team-nlp", "<!channel> @everyone", "Run <!channel> @everyone & co. is idle.",
    "release 8 GPUs", "https://gpuledger.example/findings/f-7kq2", 1, 5_000_000,
)  # fmt: skip
BODY = webhook_body("opened", "f-7kq2.1.opened", ALARM, 2, "alpha", "USD").encode()


def test_an_event_has_a_text_that_a_person_reads() -> None:
    """A chat that takes any JSON shows its text: what, what to do, where."""
    assert json.loads(BODY)["text"].split("\n") == [
        "Urgent: Run <!channel> @everyone & co. is idle.",
        "What to do: release 8 GPUs",
        "https://gpuledger.example/findings/f-7kq2",
    ]
    assert event_text("ended", ALARM).startswith("Over: Run")
    assert "What to do" not in event_text("ended", ALARM)


@pytest.mark.parametrize("host", ["receiver.example", "slack.com.example", "xhooks.slack.com", "127.0.0.1"])
def test_a_receiver_of_one_s_own_gets_the_whole_event(host: str) -> None:
    """As it is documented; a host whose name merely ends like a chat's is none."""
    assert chat_body(host, BODY) == BODY


def test_chats_get_what_they_take_and_no_name_wakes_anybody() -> None:
    """Slack, Google and Discord read signs in a text as calls to people; each is told as it is written."""
    slack = json.loads(chat_body("hooks.slack.com", BODY))
    assert list(slack) == ["text"]
    assert "&lt;!channel&gt; @everyone &amp; co." in slack["text"]
    google = json.loads(chat_body("chat.googleapis.com", BODY))
    assert list(google) == ["text"]
    assert "<" not in google["text"]
    discord = json.loads(chat_body("discord.com", BODY))
    assert discord["allowed_mentions"] == {"parse": []}
    for host in ("contoso.webhook.office.com", "prod-1.westeurope.logic.azure.com", "x.api.powerplatform.com"):
        (card,) = json.loads(chat_body(host, BODY))["attachments"]
        assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert [block["text"] for block in card["content"]["body"]] == json.loads(BODY)["text"].split("\n")
