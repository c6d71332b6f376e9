from pathlib import Path

import pytest

from appliance.core.ids import JobId
from appliance.management.access.driver_tokens import DriverTokens, open_driver_tokens

JOB = JobId("wsjob-a")


def test_a_driver_is_known_by_its_token() -> None:
    tokens = DriverTokens(b"key")

    assert tokens.find(tokens.mint(JOB)) == JOB


@pytest.mark.parametrize("text", ["", "abc", "a.b.c", DriverTokens(b"other").mint(JOB)])
def test_what_we_did_not_sign_is_no_drivers_token(text: str) -> None:
    assert DriverTokens(b"key").find(text) is None


def test_a_token_is_good_after_a_restart(tmp_path: Path) -> None:
    token = open_driver_tokens(tmp_path).mint(JOB)

    assert open_driver_tokens(tmp_path).find(token) == JOB
    assert (tmp_path / "driver-tokens.key").stat().st_mode & 0o077 == 0
