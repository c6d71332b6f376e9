"""Which files are a run's checkpoints: real files in a directory, and events at given times."""

import datetime as dt
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, User
from appliance.core.ids import JobId, WorkflowId
from appliance.core.queries.job_filter import JobLine
from appliance.core.queries.run_line import RunLine
from appliance.management.jobs.checkpoint_files import checkpoints, find_files, places

START = dt.datetime(2026, 3, 29, 0, 59, tzinfo=dt.UTC)
"""A minute before clocks in Europe are put forward."""
HDF5 = b"\x89HDF\r\n\x1a\n"


def write(path: Path, seconds: float, content: bytes = HDF5 + b"values") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (START.timestamp() + seconds,) * 2)
    return path


def made(seconds: float, step: int, reason: str = "Checkpoint") -> EventRecord:
    job = JobId("wsjob-a")
    at = START + dt.timedelta(seconds=seconds)
    message = f"session 1, step {step}: the client has fetched 2 tensors, 14 B"
    return EventRecord(job=job, at=at, reason=reason, message=message, subject=job)


def found(tmp_path: Path, *events: EventRecord) -> list[list[str]]:
    files = find_files([tmp_path], START)
    listed = checkpoints(events, files, START)
    return [[str(Path(file.path).relative_to(tmp_path)) for file in each.files] for each in listed]


def test_each_checkpoint_has_the_file_that_was_written_in_its_time(tmp_path):
    write(tmp_path / "model_dir/checkpoint_20.mdl", 30)
    write(tmp_path / "model_dir/checkpoint_40.mdl", 90)
    assert found(tmp_path, made(31, 20), made(60, 0, "JobRunning"), made(91, 40)) == [
        ["model_dir/checkpoint_20.mdl"],
        ["model_dir/checkpoint_40.mdl"],
    ]


def test_a_file_that_was_written_again_is_that_of_the_last_checkpoint_alone(tmp_path):
    write(tmp_path / "last.mdl", 90)
    assert found(tmp_path, made(31, 20), made(91, 40)) == [[], ["last.mdl"]]


@pytest.mark.parametrize(
    ("name", "seconds", "content"),
    [
        ("old.mdl", -60, HDF5),
        ("later.mdl", 60, HDF5),
        ("log.txt", 30, b"no checkpoint"),
        ("empty.mdl", 30, b""),
        (".cache/x.mdl", 30, HDF5),
        ("executors/x.mdl", 30, HDF5),
        ("a/b/c/d/e/f/x.mdl", 30, HDF5),
    ],
)
def test_other_files_are_no_checkpoints(tmp_path, name, seconds, content):
    write(tmp_path / name, seconds, content)
    assert found(tmp_path, made(31, 20)) == [[]]


def test_links_and_pipes_are_left_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    target = write(elsewhere / "x.mdl", 30)
    place = tmp_path / "place"
    place.mkdir()
    (place / "link.mdl").symlink_to(target)
    (place / "links").symlink_to(elsewhere)
    os.mkfifo(place / "pipe.mdl")
    assert find_files([place], START) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a_20.mdl", "b_40.mdl"], ["a_20.mdl"]),
        (["a_020.mdl", "b_200.mdl"], ["a_020.mdl"]),
        (["a.mdl", "b.mdl"], ["a.mdl", "b.mdl"]),
        (["r1/c_20.mdl", "r2/c_20.mdl"], ["r1/c_20.mdl", "r2/c_20.mdl"]),
    ],
)
def test_of_several_files_of_one_time_the_step_decides_if_it_can(tmp_path, names, expected):
    for name in names:
        write(tmp_path / name, 30)
    (files,) = found(tmp_path, made(31, 20))
    assert sorted(files) == expected


def job_of(kind: JobType, client_workdir: str = "") -> JobLine:
    return JobLine(
        sequence=1,
        id=JobId("wsjob-a"),
        type=kind,
        session="job-operator",
        workflow="wflow-1",
        user=User(uid=os.geteuid(), gid=0, name="ada"),
        priority=299,
        phase=Phase.RUNNING,
        message="",
        num_systems=1,
        systems=(),
        labels={},
        client_workdir=client_workdir,
        client_release="2.10.0",
        created_at=START,
        started_at=START,
        ended_at=None,
    )


def attached(workdir: str) -> RunLine:
    job = job_of(JobType.EXECUTE, workdir)
    return RunLine(id=WorkflowId("wflow-1"), name="", jobs=[job], spec=None)


def detached(work_dir: Path, *argv: str) -> RunLine:
    job = job_of(JobType.DRIVER)
    spec = DriverSpec(argv=argv, work_dir=str(work_dir), environment={})
    return RunLine(id=WorkflowId("wflow-1"), name="", jobs=[job], spec=spec)


def test_a_script_in_a_terminal_is_looked_for_around_its_artifact_directory(tmp_path):
    host = socket.gethostname()
    for below in ("artifacts", "cerebras_logs", "cerebras_logs/train/2026"):
        looked = places(attached(f"{host}:{tmp_path}/{below}/executors/000001"))
        assert looked.directories == [tmp_path]
        assert looked.explanation == f"Looked for below {tmp_path}."


def test_where_nothing_can_be_looked_for_the_reason_is_told(tmp_path):
    assert places(attached("")).explanation == "The run's directory is not known."
    away = places(attached("elsewhere:/x/cerebras_logs/executors/000001"))
    assert (away.directories, away.explanation) == ((), "The files are on elsewhere.")
    run = detached(tmp_path, "python")
    other = replace(run.first, user=replace(run.first.user, uid=os.geteuid() + 1))
    looked = places(replace(run, jobs=[other]))
    assert looked.directories == ()
    assert "no files of other users" in looked.explanation


def test_arguments_that_cannot_be_paths_are_passed_over(tmp_path):
    (tmp_path / "bad.yaml").write_bytes(b"\xff\nmodel_dir: a\x00b\n")
    words = ("", "--x=", "don't stop", "bad.yaml", "a" * 5000, "none.yaml")
    assert places(detached(tmp_path, "python", *words)).directories == [tmp_path]


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "train.py", "--model_dir", "{out}"),
        ("python", "train.py", "--model_dir={out}"),
        ("python", "train.py", "-o", "../my models"),
        ("sh", "-c", "python train.py --model_dir '{out}'"),
        ("cszoo", "fit", "params.yaml"),
    ],
)
def test_directories_that_arguments_name_are_looked_through(tmp_path, argv):
    own, out = tmp_path / "own", tmp_path / "my models"
    own.mkdir()
    out.mkdir()
    (own / "params.yaml").write_text(f'trainer:\n  init:\n    model_dir: "{out}"\n')
    looked = places(detached(own, *(word.format(out=out) for word in argv)))
    assert looked.directories == [own, out]
