"""The unmodified SDK client from PyPI against an appliance, with a program of our own."""

import signal
from pathlib import Path

import pytest

from appliance.fabric.tracing.trace import read_trace
from appliance.wire.fabric_traces import TRACE_FILE, TraceFile
from tests.support.appliance import ROOT, running_appliance
from tests.support.appliance_process import processes_of
from tests.support.sdk_client import OWN_EXAMPLES, artifact_in, result_of, start_sdk_client
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

SOURCES = ROOT / "examples" / "csl"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("sdk") / "data", "--systems", "1") as running:
        yield running


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def found(appliance, work_dir):
    run = start_sdk_client("whole.py", work_dir, appliance.config_path, str(SOURCES), "wse2")
    return result_of(run) | {"text": run.text()}


def test_a_program_is_compiled_and_then_found_compiled(found, work_dir):
    assert found["artifact"] == found["again"] == f"./{artifact_in(work_dir).name}"
    assert found["text"].count("Application was found in the compile cache.") == 1
    assert "Compilation successful." in found["text"]


def test_a_compile_error_is_logged_with_its_place(found):
    assert "layout.csl:3:3: error: use of undeclared identifier 'nowhere'" in found["text"]
    assert found["broken"] == "ApplianceUnknownError: SdkCompiler.compile() failed."


def test_a_host_program_runs_as_it_does_on_a_laptop(found):
    assert "SUCCESS!" in found["launched"]
    assert found["launched"].endswith("staged")
    assert "out/out.json" in found["downloaded"]


def test_a_command_that_fails_ends_with_its_output(found):
    assert found["failed_command"].startswith("RuntimeError: SdkLauncher.run() command error")
    assert "before\n" in found["failed_command"]
    assert "exit code 5" in found["failed_command"]


def test_the_client_drives_a_program_itself(found):
    assert found["is_right"]
    assert found["all_alike"]
    assert found["has_times"]


def test_memory_is_looked_at_after_the_run(found):
    assert found["columns_first"]


def test_what_is_wrong_with_a_request_is_told(found):
    assert "exports no symbol 'nowhere'; it exports axpy, times, x, y" in found["bad_symbol"]
    assert "has 3 elements; 4 x 2 PEs with 8 each take 64" in found["wrong_size"]
    assert "99 is not the number of a variable" in found["bad_target"]


def test_csctl_shows_the_jobs_as_it_shows_others(found, appliance):
    jobs = appliance.jobs()
    assert [job["spec"]["type"] for job in jobs] == ["sdk-compile"] * 5
    assert [job["status"]["phase"] for job in jobs].count("SUCCEEDED") == 4
    (failed,) = [job for job in jobs if job["status"]["phase"] == "FAILED"]
    assert "nowhere" in failed["meta"]["properties"]["message"]
    events = appliance.csctl("get", "job", failed["meta"]["name"], "-o", "json")
    assert "nowhere" in events


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_client_that_is_interrupted_or_killed(
    found, appliance, work_dir, tmp_path, number
):
    before = {job["meta"]["name"] for job in appliance.jobs()}
    artifact = str(artifact_in(work_dir))
    run = start_sdk_client("interrupted.py", tmp_path, appliance.config_path, artifact)
    wait_until(lambda: "begins" in run.text(), seconds=120, what="the client's command")
    (job,) = {job["meta"]["name"] for job in appliance.jobs()} - before
    wait_until(lambda: len(processes_of(job)) >= 3, seconds=120, what="the command")
    run.process.send_signal(number)
    run.wait()

    def phase() -> str:
        (shown,) = [each for each in appliance.jobs() if each["meta"]["name"] == job]
        return shown["status"]["phase"]

    wait_until(lambda: phase() == "CANCELLED", seconds=180, what="the job's end", seen=phase)
    wait_until(lambda: processes_of(job) == [], seconds=60, what="the end of every process")


def test_runs_are_traced_as_the_client_can_ask_for_it(found, appliance, tmp_path):
    before = {job["meta"]["name"] for job in appliance.jobs()}
    sources = str(ROOT / "examples" / "csl_sum")
    told = result_of(start_sdk_client("traced.py", tmp_path, appliance.config_path, sources))
    assert "is right" in told["printed"]
    jobs = {job["meta"]["name"] for job in appliance.jobs()} - before
    kept = [appliance.config_path.parent / "jobs" / job / TRACE_FILE for job in jobs]
    traces = [read_trace(TraceFile(path)) for path in kept if path.exists()]
    assert [(trace.width, trace.height) for trace in traces] == [(6, 4)] * 2
    assert told["bytes"] in [path.stat().st_size for path in kept if path.exists()]
    lines = [line for trace in traces for line in trace.header["classes"][1]["lines"].values()]
    assert any("from_east" in line[4] for line in lines)


@pytest.mark.parametrize(
    "commands", OWN_EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_an_example_runs_as_its_commands_say(commands, appliance, tmp_path):
    run = start_sdk_client("example.py", tmp_path, appliance.config_path, str(commands))
    assert run.wait() == 0, run.text()[-4000:]
    assert "SUCCESS!" in run.text()


def test_a_config_file_is_all_the_client_needs_for_tls(tmp_path):
    with running_appliance(tmp_path / "data", "--systems", "1", "--tls") as running:
        arguments = (running.config_path, str(SOURCES), "wse3")
        found = result_of(start_sdk_client("whole.py", tmp_path / "client", *arguments))
        assert found["is_right"]
        assert "SUCCESS!" in found["launched"]
