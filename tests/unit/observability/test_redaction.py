"""Secrets do not come through, however the stream that holds them is cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.observability.redaction import Redaction, secrets_of, without_tokens

TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ3YWZlciJ9.c2lnbmF0dXJl"
PASSWORD = "correct horse battery"


def shown(parts: list[bytes], *secrets: str) -> bytes:
    redaction = Redaction(secrets or (TOKEN, PASSWORD))
    return b"".join([*(redaction.feed(each) for each in parts), redaction.rest()])


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({each % (len(text) + 1) for each in places} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(st.integers(min_value=0), max_size=12))
def test_a_secret_is_taken_out_wherever_the_stream_is_cut(places: list[int]) -> None:
    text = f"a {TOKEN} b{PASSWORD}{TOKEN}\n c".encode()
    wanted = b"a [redacted] b[redacted][redacted]\n c"
    assert shown(cut(text, places)) == wanted


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=8))
def test_all_else_comes_through_unchanged(text: bytes, places: list[int]) -> None:
    if b"correct horse ba"[:16] not in text and TOKEN.encode()[:16] not in text:
        assert shown(cut(text, places)) == text


@pytest.mark.parametrize("length", [16, 20, len(TOKEN) - 1])
@pytest.mark.parametrize("after", ["", " and more"])
def test_a_secret_that_is_cut_off_is_taken_out_too(length: int, after: str) -> None:
    assert shown([f"got {TOKEN[:length]}{after}".encode()]) == f"got [redacted]{after}".encode()


def test_of_two_secrets_that_begin_alike_each_is_taken_out_whole() -> None:
    one, other = "0123456789abcdef-one", "0123456789abcdef-other-one"
    assert shown([f"{one} {other}".encode()], one, other) == b"[redacted] [redacted]"


def test_a_line_without_its_end_is_shown_at_once() -> None:
    assert Redaction([TOKEN]).feed(b"step 3\rstep 4") == b"step 3\rstep 4"


def test_short_values_are_words_and_stay() -> None:
    assert shown([b"is true"], "true") == b"is true"


def test_secrets_are_known_by_the_names_of_their_variables() -> None:
    environment = {"HF_TOKEN": "a", "DB_PASSWORD": "b", "AWS_SECRET_KEY": "c", "WANDB_API_KEY": "d"}
    assert secrets_of({**environment, "PATH": "/bin", "HOME": "/"}) == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"metadata: {TOKEN}", "metadata: [redacted]"),
        (f"metadata: {TOKEN[:30]}", "metadata: [redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("ValueError: 3 is not 4", "ValueError: 3 is not 4"),
    ],
)
def test_what_looks_like_a_token_is_taken_out_of_a_short_text(text: str, wanted: str) -> None:
    assert without_tokens(text) == wanted
