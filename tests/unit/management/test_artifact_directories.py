"""Two scripts in one artifact directory: which is refused, and which cannot be trusted any more."""

import asyncio
import datetime as dt
import os
import socket
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.errors import ConflictError
from appliance.core.ids import WorkflowId
from appliance.management.jobs.artifact_directories import ArtifactDirectories
from appliance.management.reconciler.mailbox import Happened, Mailbox
from appliance.wire.requests.submissions import compile_submission, execute_submission
from protos.appliance.common_config_pb2 import JobMode
from protos.cluster.cluster_pb2 import CompileJobRequest
from tests.support.appliance_process import execute_request
from tests.support.management import move, new_job

HERE, THERE = "node:/a/cerebras_logs", "node:/b/cerebras_logs"


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def directories(state, mailbox):
    return ArtifactDirectories(state, mailbox)


@pytest.fixture
def scripts(state, directories, mailbox, clock):
    return state, directories, mailbox, clock


def job_of(workflow, name, *, place=f"{HERE}/executors/000001", kind=JobType.COMPILE):
    job = new_job(f"wsjob-{name}", type=kind, client_workdir=place)
    return replace(job, workflow=WorkflowId(f"wflow-{workflow}"))


def submit(state, directories, job, written_at=None):
    directories.claim(job, written_at)
    return state.jobs.create(job)


def end(state, record):
    move(state.jobs, record.id, record.phase, Phase.CANCELLED)


def ended(mailbox):
    """Return the jobs that were told to end."""
    items = [mailbox.inbox.get_nowait() for _ in range(mailbox.inbox.qsize())]
    return [item.job for item in items if isinstance(item, Happened)]


@pytest.mark.parametrize(
    ("place", "is_refused"),
    [
        (f"{HERE}/executors/000001", True),
        (f"{HERE}/executors/000002", True),
        ("node:/a/./x/../cerebras_logs//executors/000001", True),
        (f"{THERE}/executors/000001", False),
        ("other:/a/cerebras_logs/executors/000001", False),
        (f"{HERE}/runs/wsjob-x/0/executors/000001", False),
        (f"{HERE}/executors/", False),
        (HERE, False),
        ("", False),
    ],
)
def test_a_second_script_is_refused_in_the_directory_of_one_that_runs_and_nowhere_else(
    state, directories, clock, place, is_refused
):
    submit(state, directories, job_of("a", "a"))
    clock.advance(600)
    second = job_of("b", "b", place=place)
    if not is_refused:
        submit(state, directories, second)
        return
    with pytest.raises(ConflictError, match=r"wsjob-a lowers its programs in node:/a/") as refusal:
        submit(state, directories, second)
    assert "artifact_dir" in refusal.value.hint
    assert "csctl cancel job wsjob-a" in refusal.value.hint


def test_the_jobs_of_one_script_share_its_directory(state, directories):
    submit(state, directories, job_of("a", "a"))
    submit(state, directories, job_of("a", "b", kind=JobType.EXECUTE))
    submit(state, directories, job_of("a", "c", place=f"{HERE}/executors/000002"))


def test_a_script_that_has_ended_leaves_its_directory_to_the_next(state, directories, clock):
    end(state, submit(state, directories, job_of("a", "a")))
    submit(state, directories, job_of("b", "b"))
    clock.advance(1)
    written_after_the_first = clock.now()
    end(state, state.jobs.load("wsjob-b"))
    submit(state, directories, job_of("c", "c"), written_after_the_first)


def test_of_two_jobs_in_one_transaction_the_second_is_refused(state, directories):
    with state.database.batch():
        with state.database.step():
            submit(state, directories, job_of("a", "a"))
        with pytest.raises(ConflictError, match="wsjob-a"):
            directories.claim(job_of("b", "b"), None)
    assert directories._arriving == {}


@pytest.mark.parametrize(
    ("seconds", "written", "doomed"),
    [
        (600, None, []),
        (60, None, ["wsjob-a"]),  # it may have been lowered at the same time, on another machine
        (60, -1, ["wsjob-a"]),  # written before the first was sent
        (60, 0, ["wsjob-a"]),
        (60, 1, []),
        (600, -1, ["wsjob-a"]),
    ],
)
def test_the_older_script_ends_too_if_its_program_may_be_the_other_s(
    scripts, seconds, written, doomed
):
    state, directories, mailbox, clock = scripts
    first = submit(state, directories, job_of("a", "a"))
    clock.advance(seconds)
    at = None if written is None else first.created_at + dt.timedelta(seconds=written)
    with pytest.raises(ConflictError):
        submit(state, directories, job_of("b", "b"), at)
    assert ended(mailbox) == doomed


def test_a_program_of_another_loop_is_in_files_of_its_own(state, directories, mailbox, clock):
    submit(state, directories, job_of("a", "a", place=f"{HERE}/executors/000002"))
    with pytest.raises(ConflictError):
        submit(state, directories, job_of("b", "b"), clock.now())
    assert ended(mailbox) == []


def test_between_compile_and_execute_the_older_script_keeps_its_directory(
    state, directories, mailbox, clock
):
    end(state, submit(state, directories, job_of("a", "a")))
    clock.advance(1)
    submit(state, directories, job_of("b", "b"), clock.now())
    submit(state, directories, job_of("a", "c", kind=JobType.EXECUTE))
    assert ended(mailbox) == ["wsjob-b"]


def test_a_script_that_ended_while_another_lowered_over_its_program_is_marked(
    state, directories, mailbox
):
    first = submit(state, directories, job_of("a", "a"))
    end(state, first)
    with pytest.raises(ConflictError, match="wsjob-a"):
        submit(state, directories, job_of("b", "b"), first.created_at)
    mailbox.inbox.get_nowait().write()
    assert [event.reason for event in state.jobs.events(first.id)][-1] == "ProgramOverwritten"


def test_the_file_of_a_compile_request_from_this_machine_says_when_it_was_written(
    directories, tmp_path
):
    place = tmp_path / "executors" / "000001"
    request = CompileJobRequest(job_mode=JobMode(job=JobMode.COMPILE))

    def written(host):
        request.client_workdir = f"{host}:{place}"
        return asyncio.run(directories.written_at(compile_submission(request)))

    assert written(socket.gethostname()) is None
    place.mkdir(parents=True)
    (place / "torch.mlir").touch()
    os.utime(place / "torch.mlir", (7, 7))
    assert written(socket.gethostname()) == dt.datetime.fromtimestamp(7, tz=dt.UTC)
    assert written("elsewhere") is None
    assert asyncio.run(directories.written_at(execute_submission(execute_request(1, 1)))) is None
