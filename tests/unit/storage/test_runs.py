"""Runs: which jobs are one, what it is called, and what it is when jobs are forgotten."""

import datetime as dt

import pytest

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.core.errors import UserError
from appliance.core.queries.job_filter import JobFilter, JobPosition
from appliance.core.queries.label_selector import equal_to, parse_selector
from appliance.core.queries.run_line import inherited_labels, run_name
from appliance.storage.runs import run_pages
from tests.support.management import move, new_job

SPEC = DriverSpec(argv=("python", "train.py", "--lr", "1e-3"), work_dir="/home/ada")
EVERY = JobFilter(with_finished=True)


def submit(state, name, workflow, *, spec=None, **changes):
    kind = JobType.DRIVER if spec else changes.pop("type", JobType.EXECUTE)
    with state.database.batch():
        job = state.jobs.create(new_job(name, workflow=workflow, type=kind, **changes))
        state.workflows.ensure(workflow, session=job.session, user=job.user, first=job)
        if spec:
            state.driver_specs.keep(job.id, spec)
    return job


def end(state, job, phase=Phase.FAILED):
    move(state.jobs, job.id, Phase.QUEUED, phase)


def ids(runs):
    return [run.id for run in runs]


def test_a_run_has_its_driver_first_and_every_job_of_its_script(state):
    driver = submit(state, "wsjob-d", "wflow-a", spec=SPEC, labels={"name": "gpt"})
    other = submit(state, "wsjob-x", "wflow-b")
    compiled = submit(state, "wsjob-c", "wflow-a", type=JobType.COMPILE)
    newest, oldest = state.runs.page(EVERY)
    assert (newest.id, [job.id for job in newest.jobs]) == ("wflow-b", [other.id])
    assert (oldest.name, [job.id for job in oldest.jobs]) == ("gpt", [driver.id, compiled.id])
    assert (oldest.script, oldest.argv, oldest.work_dir) == ("train.py", SPEC.argv, "/home/ada")
    assert (newest.driver, newest.name, newest.argv) == (None, "", ())
    assert state.runs.find("wflow-a") == oldest
    assert state.runs.find("wflow-none") is None


def test_a_workflow_is_a_run_from_its_first_job_on_however_it_was_opened(state):
    state.workflows.ensure("wflow-a", session="job-operator", user=new_job().user)
    assert state.runs.page(EVERY) == []
    submit(state, "wsjob-a", "wflow-a", labels={"name": "one"})
    submit(state, "wsjob-b", "wflow-a", labels={"name": "two"})
    assert [run.name for run in state.runs.page(EVERY)] == ["one"]


def test_a_script_whose_workflow_is_held_goes_on_between_its_jobs(state, clock):
    state.workflows.ensure("wflow-a", session="job-operator", user=new_job().user)
    state.leases.grant("wflow-a", seconds=30)
    for number, phase in enumerate((Phase.SUCCEEDED, Phase.FAILED)):
        job = submit(state, f"wsjob-{number}", "wflow-a", type=JobType.COMPILE)
        end(state, job, phase)
        (run,) = state.runs.page(JobFilter())
        assert (run.phase, run.ended_at, run.is_over) == (Phase.RUNNING, None, False)
        assert run.message.startswith(f"its script goes on after wsjob-{number}, which is {phase}")
        assert state.runs.count(JobFilter()) == 1
    clock.advance(31.0)
    assert (state.runs.page(JobFilter()), state.runs.count(JobFilter())) == ([], 0)
    assert state.runs.find("wflow-a").phase is Phase.FAILED
    state.leases.grant("wflow-a", seconds=30)
    state.leases.end("wflow-a")
    assert state.runs.find("wflow-a").is_over


def test_a_script_without_a_workflow_lease_goes_on_right_after_its_compile(state, clock):
    end(state, submit(state, "wsjob-a", "wflow-a", type=JobType.COMPILE), Phase.SUCCEEDED)
    end(state, submit(state, "wsjob-b", "wflow-b", type=JobType.COMPILE), Phase.FAILED)
    end(state, submit(state, "wsjob-c", "wflow-c"), Phase.SUCCEEDED)
    assert ids(state.runs.page(JobFilter())) == ["wflow-a"]
    assert state.runs.find("wflow-a").phase is Phase.RUNNING
    end(state, submit(state, "wsjob-d", "wflow-a"), Phase.SUCCEEDED)
    assert state.runs.find("wflow-a").phase is Phase.SUCCEEDED
    end(state, submit(state, "wsjob-e", "wflow-e", type=JobType.COMPILE), Phase.SUCCEEDED)
    clock.advance(16.0)
    assert state.runs.page(JobFilter()) == []
    assert state.runs.find("wflow-e").ended_at is not None


def test_a_detached_run_stands_where_its_driver_does_whoever_holds_its_workflow(state):
    driver = submit(state, "wsjob-d", "wflow-a", spec=SPEC)
    state.leases.grant("wflow-a", seconds=30)
    end(state, submit(state, "wsjob-c", "wflow-a", type=JobType.COMPILE), Phase.SUCCEEDED)
    end(state, driver)
    assert state.runs.find("wflow-a").is_over
    assert state.runs.page(JobFilter()) == []


def test_jobs_of_somebody_else_are_none_of_a_run(state):
    submit(state, "wsjob-a", "wflow-a")
    submit(state, "wsjob-b", "wflow-a", user=User(uid=1001, gid=100, name="bob"))
    (run,) = state.runs.page(EVERY)
    assert [job.id for job in run.jobs] == ["wsjob-a"]


def test_a_run_goes_with_the_last_of_its_jobs_and_begins_with_the_oldest_that_is_left(state, clock):
    first = submit(state, "wsjob-a", "wflow-a", type=JobType.COMPILE)
    end(state, first, Phase.CANCELLED)
    clock.advance(60.0)
    second = submit(state, "wsjob-b", "wflow-a", labels={"model": "gpt"})
    end(state, second)
    state.jobs.prune(clock.now() - dt.timedelta(seconds=1), limit=9)
    (run,) = state.runs.page(JobFilter(labels=equal_to({"model": "gpt"}), with_finished=True))
    assert [job.id for job in run.jobs] == [second.id]
    state.jobs.delete(second.id)
    assert state.runs.page(EVERY) == []
    assert state.runs.find("wflow-a") is None
    submit(state, "wsjob-c", "wflow-a", labels={"name": "again"})
    assert [run.name for run in state.runs.page(EVERY)] == ["again"]


def test_pages_of_runs_are_newest_first_without_gaps_and_are_filtered_like_jobs(state):
    ada, bob = new_job().user, User(uid=1001, gid=100, name="bob")
    for number in range(5):
        submit(
            state,
            f"wsjob-{number}",
            f"wflow-{number}",
            user=bob if number == 2 else ada,
            session="nlp" if number == 3 else "job-operator",
            labels={"odd": str(number % 2)},
        )
    first = state.runs.page(JobFilter(with_finished=True, limit=2))
    last = JobPosition(priority=0, sequence=first[-1].first.sequence)
    rest = state.runs.page(JobFilter(with_finished=True, limit=9, after=last))
    assert ids([*first, *rest]) == ["wflow-4", "wflow-3", "wflow-2", "wflow-1", "wflow-0"]
    assert state.runs.count(JobFilter(with_finished=True, limit=2, after=last)) == 5
    for wanted, found in (
        ({"uid": 1001}, ["wflow-2"]),
        ({"user": "bob"}, ["wflow-2"]),
        ({"session": "nlp"}, ["wflow-3"]),
        ({"labels": parse_selector(["odd=1"])}, ["wflow-3", "wflow-1"]),
        ({"labels": parse_selector(["odd!=1"])}, ["wflow-4", "wflow-2", "wflow-0"]),
        ({"text": "odd=1 ada"}, ["wflow-3", "wflow-1"]),
    ):
        assert ids(state.runs.page(JobFilter(with_finished=True, **wanted))) == found


def test_all_runs_are_listed_however_many_there_are(state, monkeypatch):
    monkeypatch.setattr(run_pages, "_MOST_TOGETHER", 2)
    for number in range(5):
        submit(state, f"wsjob-{number}", f"wflow-{number}")
    for limit in (0, 3, 4, 5, 6):
        found = ids(state.runs.page(JobFilter(limit=limit)))
        assert found == [f"wflow-{number}" for number in (4, 3, 2, 1, 0)][: limit or None]


def test_a_run_is_unfinished_as_long_as_one_of_its_jobs_is(state):
    first = submit(state, "wsjob-a", "wflow-a", type=JobType.COMPILE)
    end(state, first, Phase.CANCELLED)
    assert state.runs.page(JobFilter()) == []
    second = submit(state, "wsjob-b", "wflow-a")
    (run,) = state.runs.page(JobFilter())
    assert (run.phase, run.ended_at, run.unfinished) == (Phase.QUEUED, None, [second.id])
    end(state, second)
    (run,) = state.runs.page(EVERY)
    assert (run.phase, run.unfinished) == (Phase.FAILED, [])
    assert run.ended_at is not None


def test_a_detached_run_stands_where_its_driver_does_and_ends_with_it(state):
    driver = submit(state, "wsjob-d", "wflow-a", spec=SPEC)
    job = submit(state, "wsjob-e", "wflow-a")
    (run,) = state.runs.page(EVERY)
    assert (run.log_job, run.unfinished) == (driver.id, [driver.id])
    end(state, job)
    assert state.runs.find("wflow-a").phase is Phase.QUEUED
    end(state, driver, Phase.CANCELLED)
    assert state.runs.find("wflow-a").phase is Phase.CANCELLED


def test_runs_are_found_by_name_newest_first_in_their_session(state):
    for number, session in enumerate(("job-operator", "nlp", "job-operator")):
        labels = {"name": "gpt"}
        submit(state, f"wsjob-{number}", f"wflow-{number}", session=session, labels=labels)
    assert ids(state.runs.named("gpt", "job-operator")) == ["wflow-2", "wflow-0"]
    assert ids(state.runs.named("gpt", "")) == ["wflow-2", "wflow-1", "wflow-0"]
    assert (state.runs.named("", ""), state.runs.named("other", "")) == ([], [])


def test_what_a_run_knows_of_its_place_is_of_its_first_and_latest_jobs(state):
    lowers = "host1:/home/ada/cerebras_logs/executors/000001"
    submit(state, "wsjob-c", "wflow-a", type=JobType.COMPILE, client_workdir=lowers)
    submit(state, "wsjob-1", "wflow-a", client_release="2.10.0")
    submit(state, "wsjob-2", "wflow-a")
    (run,) = state.runs.page(EVERY)
    assert (run.work_dir, run.client_release) == ("host1:/home/ada/cerebras_logs", "2.10.0")
    assert (run.log_job, run.environment_digest, run.commit) == ("wsjob-2", "", "")


def test_an_environment_is_told_from_another_by_what_the_user_gave(state):
    digests = []
    for number, variables in enumerate(
        ({"A": "1", "WSC_ARRAY_INDEX": "1"}, {"WSC_ARRAY_INDEX": "2", "A": "1"}, {"A": "2"})
    ):
        spec = DriverSpec(argv=("true",), work_dir="/", environment=variables)
        submit(state, f"wsjob-{number}", f"wflow-{number}", spec=spec)
        digests.append(state.runs.find(f"wflow-{number}").environment_digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("labels", "array", "name"),
    [
        ({}, "", ""),
        ({"name": "gpt"}, "", "gpt"),
        ({"name": "gpt", "index": "3", "array": "array-a"}, "array-a", "gpt.3"),
        ({"index": "3", "array": "array-a"}, "array-a", ""),
    ],
)
def test_a_run_is_called_by_its_label_and_one_of_an_array_by_its_index_too(labels, array, name):
    assert run_name(labels, array=array) == name


@pytest.mark.parametrize(
    ("own", "most", "expected"),
    [
        ({}, 9, {"name": "gpt", "lr": "1"}),
        ({"lr": "2"}, 9, {"name": "gpt", "lr": "2"}),
        ({"a": "1", "b": "2"}, 3, {"name": "gpt", "a": "1", "b": "2"}),
        ({"a": "1", "b": "2"}, 2, {"a": "1", "b": "2"}),
        ({"a": "1", "b": "2"}, 1, {"a": "1", "b": "2"}),
    ],
)
def test_a_job_has_its_own_labels_and_those_of_its_run_but_no_place_in_an_array(
    own, most, expected
):
    driver = {"lr": "1", "array": "array-a", "index": "3", "name": "gpt"}
    assert inherited_labels(driver, own, most=most) == expected


@pytest.mark.parametrize("commit", ["", "0" * 40, "a1" * 32])
def test_a_commit_is_what_git_calls_one(commit):
    assert DriverSpec(argv=("true",), work_dir="/", commit=commit).commit == commit


@pytest.mark.parametrize("commit", ["0" * 39, "A" * 40, "--upload-pack=x", "0" * 64 + "\n"])
def test_what_is_no_commit_is_refused(commit):
    with pytest.raises(UserError, match="is no git commit"):
        DriverSpec(argv=("true",), work_dir="/", commit=commit)


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (("/opt/client/bin/python", "src/train.py", "--lr", "1"), "train.py"),
        (("sh", "-c", "python train.py --lr 1e-$WSC_ARRAY_INDEX"), "train.py"),
        (("/home/ada/run.sh",), "run.sh"),
        (("python", "-m", "train"), "python"),
    ],
)
def test_the_word_that_tells_most_of_a_command_is_its_script(state, argv, script):
    submit(state, "wsjob-d", "wflow-a", spec=DriverSpec(argv=argv, work_dir="/"))
    assert state.runs.find("wflow-a").script == script


@pytest.mark.parametrize(("index", "found"), [("3", 3), (None, None), ("x", None)])
def test_a_run_of_an_array_has_the_index_that_its_label_says_if_it_is_one(state, index, found):
    labels = {"array": "array-a"} | ({"index": index} if index else {})
    submit(state, "wsjob-d", "wflow-a", spec=SPEC, labels=labels)
    assert (state.runs.find("wflow-a").array, state.runs.find("wflow-a").index) == (
        "array-a",
        found,
    )
