"""Which logs are shortened, which are removed, and what whoever reads them sees."""

import os

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.ids import JobId
from appliance.management.logs.log_files import kept_bytes, kept_from, read_log, tail_offset
from appliance.management.logs.log_retention import LogLimits, LogRetention
from tests.support.management import move, new_job

DAY = 86_400
LINE = b"a line of a log that is 40 bytes long..\n"


@pytest.fixture
def jobs_dir(tmp_path):
    return tmp_path / "jobs"


def retention(state, jobs_dir, **limits):
    none = {"pod_bytes": 0, "total_bytes": 0, "age_seconds": 0, "num_jobs": 0}
    return LogRetention(state, jobs_dir, (), LogLimits(**{**none, **limits}))


def job_with_log(state, jobs_dir, clock, name, *, num_bytes=40_000, age_days=0.0, is_over=True):
    """Keep a job, and a log that was last written to so long ago."""
    state.jobs.create(new_job(name))
    move(state.jobs, JobId(name), Phase.QUEUED, Phase.CANCELLED if is_over else Phase.SCHEDULED)
    log = jobs_dir / name / "logs" / "coordinator-0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(LINE * (num_bytes // len(LINE)))
    moment = clock.now().timestamp() - age_days * DAY
    os.utime(log, (moment, moment))
    return log


def removals(state, name):
    return [
        event.message for event in state.jobs.events(JobId(name)) if event.reason == "LogsRemoved"
    ]


def test_a_running_pods_log_loses_its_beginning_and_no_more(state, jobs_dir, clock):
    log = job_with_log(state, jobs_dir, clock, "wsjob-a", num_bytes=4_000_000, is_over=False)
    with log.open("ab", buffering=0) as pod:  # as the pod holds it
        retention(state, jobs_dir, pod_bytes=1_000_000).trim()
        pod.write(b"last words\n")
    assert log.stat().st_size == 4_000_011
    assert log.stat().st_blocks * 512 < 600_000
    assert 490_000 < kept_bytes(log) < 520_000
    start, data = read_log(log, 0, 1 << 20)
    assert start == kept_from(log)
    assert start % len(LINE) == 0, "a line begins where reading begins"
    assert data.endswith(LINE + b"last words\n")
    assert b"\0" not in data


def test_whoever_follows_a_log_goes_on_where_it_was(state, jobs_dir, clock):
    log = job_with_log(state, jobs_dir, clock, "wsjob-a", num_bytes=4_000_000, is_over=False)
    behind, ahead = 1000, 3_999_960
    retention(state, jobs_dir, pod_bytes=1_000_000).trim()
    assert read_log(log, ahead, 100) == (ahead, LINE)
    assert read_log(log, behind, 100)[0] == kept_from(log)


def test_the_tail_of_a_shortened_log_ends_where_it_is_kept_from(state, jobs_dir, clock):
    log = job_with_log(state, jobs_dir, clock, "wsjob-a", num_bytes=4_000_000, is_over=False)
    retention(state, jobs_dir, pod_bytes=1_000_000).trim()
    assert tail_offset(log, 3) == 4_000_000 - 3 * len(LINE)
    assert tail_offset(log, 10**6) == kept_from(log)


def test_a_log_below_its_limit_stays_whole(state, jobs_dir, clock):
    log = job_with_log(state, jobs_dir, clock, "wsjob-a", is_over=False)
    retention(state, jobs_dir, pod_bytes=1_000_000).trim()
    assert kept_from(log) == 0


def test_old_logs_of_ended_jobs_are_removed_and_that_is_written_down(state, jobs_dir, clock):
    old = job_with_log(state, jobs_dir, clock, "wsjob-old", age_days=8)
    young = job_with_log(state, jobs_dir, clock, "wsjob-young", age_days=6)
    quiet = job_with_log(state, jobs_dir, clock, "wsjob-quiet", age_days=8, is_over=False)
    retention(state, jobs_dir, age_seconds=7 * DAY).sweep()
    assert (old.exists(), young.exists(), quiet.exists()) == (False, True, True)
    assert removals(state, "wsjob-old") == [
        "1 log(s) with 40,960 bytes were removed: they were older than 7 day(s)"
    ]
    assert removals(state, "wsjob-young") == []


def test_beyond_the_total_the_oldest_go_first(state, jobs_dir, clock):
    logs = [
        job_with_log(state, jobs_dir, clock, f"wsjob-{age}", num_bytes=400_000, age_days=age)
        for age in (1, 3, 2)
    ]
    retention(state, jobs_dir, total_bytes=900_000).sweep()
    assert [log.exists() for log in logs] == [True, False, True]
    assert "took more than" in removals(state, "wsjob-3")[0]


def test_what_belongs_to_no_job_is_left_alone(state, jobs_dir):
    stranger = jobs_dir / "wsjob-new" / "logs" / "coordinator-0.log"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(LINE)
    os.utime(stranger, (0, 0))
    retention(state, jobs_dir, age_seconds=DAY).sweep()
    assert stranger.exists()


def test_the_whole_directory_of_a_job_goes_with_its_logs(state, jobs_dir, clock):
    log = job_with_log(state, jobs_dir, clock, "wsjob-old", age_days=8)
    (jobs_dir / "wsjob-old" / "request.bin").write_bytes(b"secret")
    retention(state, jobs_dir, age_seconds=7 * DAY).sweep()
    assert not log.parent.parent.exists()


def test_beyond_the_number_of_jobs_the_oldest_go_first(state, jobs_dir, clock):
    logs = [job_with_log(state, jobs_dir, clock, f"wsjob-{age}", age_days=age) for age in (1, 3, 2)]
    retention(state, jobs_dir, num_jobs=2).sweep()
    assert [log.exists() for log in logs] == [True, False, True]
    assert "more than 2 jobs had logs" in removals(state, "wsjob-3")[0]


def test_of_thousands_of_cancelled_jobs_no_directory_is_left(state, jobs_dir, clock):
    moment = clock.now().timestamp()
    names = {f"wsjob-{number}": 2 * 3600 for number in range(1000)}
    names |= {"wsjob-young": 1800, "wsjob-waits": 2 * 3600}
    with state.database.batch():
        for name in names:
            state.jobs.create(new_job(name))
            if name != "wsjob-waits":
                move(state.jobs, JobId(name), Phase.QUEUED, Phase.CANCELLED)
    for name, age in names.items():
        (jobs_dir / name).mkdir(parents=True)
        (jobs_dir / name / "request.bin").write_bytes(b"request")
        os.utime(jobs_dir / name, (moment - age, moment - age))
    retention(state, jobs_dir).sweep()
    assert sorted(os.listdir(jobs_dir)) == ["wsjob-waits", "wsjob-young"]
    assert removals(state, "wsjob-7") == []
