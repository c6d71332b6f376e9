"""Both ends of a network connection prove that they know the job's key."""

import socket
import threading
from contextlib import contextmanager

import pytest

from appliance.core.errors import StreamClosedError
from appliance.streams.network.introduction import Challenge, NotServedError, introduce
from appliance.streams.network.options import NetworkOptions

HELLO = {"job": "wsjob-a", "stream": "broadcast"}


@contextmanager
def served(answer, key=b"secret"):
    """Serve one handshake over a socket pair; yields the client's end and what was asked for."""
    client, server = socket.socketpair()
    asked: list[object] = []

    def serve():
        challenge = Challenge(server, lambda hello: key)
        try:
            asked.append(challenge.ask())
            answer(challenge)
        except StreamClosedError as error:
            asked.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    with client, server:
        client.settimeout(60)
        server.settimeout(60)
        yield client, asked
        thread.join(60)
        assert not thread.is_alive()


def options(key=b"secret"):
    return NetworkOptions(host="127.0.0.1", key=key)


def test_who_knows_the_key_gets_the_answer_and_is_heard():
    with served(lambda challenge: challenge.answer({"slots": 3})) as (client, asked):
        assert introduce(client, HELLO, options())["slots"] == 3
    assert {name: asked[0][name] for name in HELLO} == HELLO


def test_who_does_not_know_the_key_is_turned_away_by_either_end():
    accept, wrong = (lambda challenge: challenge.answer({})), "does not know the key"
    with served(accept) as (client, asked), pytest.raises(StreamClosedError, match=wrong):
        introduce(client, HELLO, options(b"guess"))
    assert isinstance(asked[0], StreamClosedError)


@pytest.mark.parametrize(
    ("is_final", "error"), [(True, StreamClosedError), (False, NotServedError)]
)
def test_a_refusal_says_whether_to_come_again(is_final, error):
    def refuse(challenge):
        challenge.refuse("not loaded yet", is_final=is_final)

    with served(refuse) as (client, _), pytest.raises(error, match="not loaded yet"):
        introduce(client, HELLO, options())
