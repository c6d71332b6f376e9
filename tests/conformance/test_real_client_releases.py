"""Clients of every public release train on one appliance at the same time."""

from pathlib import Path

import pytest

from appliance.management.store.versions import CLIENT_BUILDS, NEWEST_CLIENT
from tests.support.appliance import Appliance
from tests.support.client import losses, start_client

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_six_releases_train_and_evaluate_side_by_side(appliance: Appliance, tmp_path: Path) -> None:
    runs = {
        release: start_client(
            tmp_path / release,
            *("--model", "gpt_adamw", "--steps", "2", "--train-eval-train-eval"),
            *("--job-label", f"client={release}"),
            *("--save", str(tmp_path / release / "{step}.mdl")),
            address=appliance.address,
            release="" if release == NEWEST_CLIENT else release,
        )
        for release in CLIENT_BUILDS
    }
    found = {release: losses(run.result()) for release, run in runs.items()}
    assert found == dict.fromkeys(CLIENT_BUILDS, found[NEWEST_CLIENT])
    assert found[NEWEST_CLIENT]
    warned = [release for release, run in runs.items() if "inconsistent" in run.text()]
    assert warned == []
    of_release = {
        job["meta"]["labels"]["client"]: job["meta"]["properties"]["client_release"]
        for job in appliance.jobs()
        if "client" in job["meta"].get("labels", {})
    }
    assert of_release == {release: release for release in CLIENT_BUILDS}
