"""TLS: the client finds the cluster by its config file alone."""

import json
from pathlib import Path

import pytest

from tests.support.appliance import running_appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_a_config_file_is_all_a_client_needs_for_tls(tmp_path: Path) -> None:
    with running_appliance(tmp_path / "appliance", "--systems", "1", "--tls") as appliance:
        cluster = json.loads(appliance.config_path.read_text())["clusters"][0]
        assert cluster["namespaces"][0]["certificateAuthorityData"]
        run = start_client(
            tmp_path / "client",
            *("--model", "mlp_sgd", "--steps", "3"),
            config=appliance.config_path,
        )
        assert len(losses(run.result())) == 3
        assert "TLS certificate was not provided" not in run.text()
        assert "execute" in appliance.csctl("get", "jobs", "-a")
