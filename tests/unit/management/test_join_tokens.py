"""Join tokens: what they say, what proves them, until when."""

import datetime as dt

import pytest

from appliance.core.cluster.join_token import JoinToken
from appliance.core.errors import ForbiddenError, UserError
from appliance.management.access.join_tokens import JoinTokens
from tests.support.clock import FakeClock


def test_a_token_is_proved_by_a_secret_that_is_not_kept(tmp_path):
    clock = FakeClock()
    token = JoinTokens(tmp_path, clock).mint(dt.timedelta(days=1))
    again = JoinTokens(tmp_path, clock)
    assert JoinToken.parse(f" {token.text}\n") == token
    assert again.key_of({"token": token.id}) == token.secret.encode()
    assert again.key_of({"token": token.id + "0"}) != token.secret.encode()
    again.check({"token": token.id, "label": "csx-0"})


def test_a_token_ends(tmp_path):
    clock = FakeClock()
    tokens = JoinTokens(tmp_path, clock)
    token = tokens.mint(dt.timedelta(seconds=60))
    clock.advance(61)
    with pytest.raises(ForbiddenError, match="The join token of csx-0 has expired at"):
        tokens.check({"token": token.id, "label": "csx-0"})
    with pytest.raises(ForbiddenError):
        tokens.check({"token": "no time", "label": "csx-0"})


@pytest.mark.parametrize("text", ["", "wsc-join.a.b", "wsc-join.a..c", "other.a.b.c"])
def test_what_is_no_token_is_refused(text):
    with pytest.raises(UserError, match="4 and begins with 'wsc-join'"):
        JoinToken.parse(text)
