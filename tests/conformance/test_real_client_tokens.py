"""Tokens and TLS together: the client trains with a token, and not with a wrong one."""

import getpass
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.appliance import Appliance, running_appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]

ME = (getpass.getuser(), "--uid", str(os.getuid()), "--gid", str(os.getgid()))
TRAINING = ("--model", "mlp_sgd", "--steps", "3")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("strict")
    with running_appliance(data, "--systems", "1", "--tls", "--tokens") as running:
        yield running


def test_a_client_with_a_minted_token_trains(strict: Appliance, tmp_path: Path) -> None:
    token = strict.command("token", "create", *ME, program="appliance").strip()
    run = start_client(tmp_path, *TRAINING, config=strict.config_path, token=token)
    assert len(losses(run.result())) == 3
    with pytest.MonkeyPatch.context() as variables:
        assert "wants a token" in strict.try_command("get", "jobs", program="csctl").stderr
        variables.setenv("CSAUTH_TOKEN", token)
        assert "execute" in strict.csctl("get", "jobs", "-a")


def test_a_client_with_a_revoked_token_is_told_so_in_one_sentence(
    strict: Appliance, tmp_path: Path
) -> None:
    token = strict.command("token", "create", *ME, "--label", "old", program="appliance").strip()
    rows = strict.command("token", "list", program="appliance").splitlines()
    (token_id,) = (row.split()[0] for row in rows if row.endswith("old"))
    strict.command("token", "revoke", token_id, program="appliance")
    run = start_client(tmp_path, *TRAINING, config=strict.config_path, token=token)
    assert run.wait() != 0
    sentence = f"Token {token_id} was revoked."
    said = [line for line in run.text().splitlines() if sentence in line]
    assert any("UNAUTHENTICATED" in run.text() and "CSAUTH_TOKEN" in line for line in said)
