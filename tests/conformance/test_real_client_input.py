"""What the unmodified client's user sees when the dataloader is too slow for the systems."""

import re
from pathlib import Path

import pytest

from tests.support.appliance import running_appliance
from tests.support.client import start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_a_dataloader_that_stops_fails_the_job_as_a_stall(tmp_path: Path) -> None:
    with running_appliance(tmp_path / "appliance", "--stall-seconds", "10") as appliance:
        run = start_client(
            tmp_path / "client",
            *("--model", "mlp_sgd", "--steps", "9", "--loader", "stalling"),
            *("--fail-after", "5", "--seconds-per-batch", "1000"),
            address=appliance.address,
        )
        assert run.wait() != 0
        text = run.text()
        assert "Declaring stall due to input starvation, no change in status for 10 secs" in text
        assert "for the batch of step 6. Please check dataloader throughput." in text
        assert "ApplianceDeadlockError" in text
        assert "train step 5 " in text
        assert "train step 6 " not in text
        (job,) = (job for job in appliance.jobs() if job["spec"]["type"] == "execute")
        assert job["status"]["phase"] == "FAILED"
        name = job["meta"]["name"]
        events = appliance.csctl("job", "events", name, "-o", "json")
        assert events.count('"InputStarvation"') == 1
        assert "Input starvation detected: system 0 waited" in events
        assert re.search(r"\d steps into session 1", events)
