"""SDK jobs in the dashboard: in the list, and each on a page of its own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from protos.cluster.cluster_pb2 import JobStatus
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.e2e.conftest import Opener
from tests.support.appliance_process import ApplianceProcess, running_appliance
from tests.support.sdk_jobs import compile_command, example_sources, sdk_job

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


def ended_job(appliance: ApplianceProcess, command: str, *, has_system: bool) -> str:
    """Run a command in a job and let the client end the job as it does; return the job."""
    with sdk_job(appliance, has_system=has_system) as job:
        job.upload_artifact("art", **example_sources())
        answer = job.run(compile_command(width=2, height=1, n=8), command, target="art")
        if answer.code == StatusCode.SDK_RT_SUCCESS:
            job.cancel(message="Success")
        else:
            job.cancel(JobStatus.JOB_STATUS_FAILED)
        return job.id


@pytest.fixture(scope="module")
def executed(appliance: ApplianceProcess) -> str:
    return ended_job(appliance, "cs_python run.py --name out", has_system=True)


@pytest.fixture(scope="module")
def failed(appliance: ApplianceProcess) -> str:
    return ended_job(appliance, "echo no such kernel; exit 7", has_system=False)


def test_they_are_in_the_list_with_their_types(
    appliance: ApplianceProcess, executed: str, failed: str, opener: Opener
) -> None:
    page = opener(appliance.state.rest_url).open("/queue")
    page.get_by_role("combobox", name="Which jobs").select_option("all")
    for job, kind, phase in (
        (executed, "sdk-execute", "SUCCEEDED"),
        (failed, "sdk-compile", "FAILED"),
    ):
        row = (
            page.get_by_role("table", name="Jobs")
            .get_by_role("row")
            .filter(has=page.get_by_role("link", name=job))
        )
        expect(row).to_contain_text(kind)
        expect(row).to_contain_text(phase)


def test_a_page_shows_phases_pods_logs_and_events(
    appliance: ApplianceProcess, executed: str, opener: Opener
) -> None:
    page = opener(appliance.state.rest_url).open(f"/jobs/{executed}")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()
    steps = page.get_by_role("listitem")
    for phase in ("QUEUED", "RUNNING", "SUCCEEDED"):
        expect(steps.filter(has_text=phase).first).to_be_visible()
    expect(page.get_by_text("sdk-execute").first).to_be_visible()
    expect(page.get_by_text(f"{executed}-coordinator-0").first).to_be_visible()
    page.get_by_role("combobox", name="Log of").select_option(f"{executed}-sdk-0")
    expect(page.get_by_role("log")).to_contain_text("SUCCESS!")


def test_a_failed_one_says_what_failed(
    appliance: ApplianceProcess, failed: str, opener: Opener
) -> None:
    page = opener(appliance.state.rest_url).open(f"/jobs/{failed}")
    expect(page.get_by_text("no such kernel").first).to_be_visible()
    expect(page.get_by_text("SdkRequestFailed").first).to_be_visible()
