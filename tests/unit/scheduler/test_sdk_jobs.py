"""SDK jobs wait, and count, as the jobs of their queue type do."""

from dataclasses import replace

from appliance.core.cluster.jobs import JobType
from appliance.scheduler.run_time import Basis, RunHistory
from appliance.scheduler.snapshot import SessionQuota
from tests.support.scheduling import admitted, cluster, compile_, cycle, execute


def sdk_compile(name: str, **fields):
    return replace(compile_(name, **fields), type=JobType.SDK_COMPILE)


def test_a_session_s_compile_jobs_and_sdk_compile_jobs_count_together():
    quota = SessionQuota(name="job-operator", max_compiles=1)
    jobs = [sdk_compile("sdk", sequence=0), compile_("training", sequence=1)]
    assert list(admitted(cycle(cluster(1, sessions=(quota,)), jobs))) == ["sdk"]


def test_an_sdk_execute_job_takes_its_system_in_its_turn():
    sdk = replace(execute("sdk", 1, sequence=1), type=JobType.SDK_EXECUTE)
    outcome = cycle(cluster(2), [execute("training", 1, sequence=0), sdk])
    assert admitted(outcome) == {"training": ("s0",), "sdk": ("s1",)}


def test_the_short_runs_of_sdk_jobs_are_not_expected_of_trainings():
    history = RunHistory()
    history.observe("ada", "", JobType.SDK_EXECUTE, 5.0)
    assert history.estimate("ada", "", JobType.SDK_EXECUTE).expected_seconds == 5.0
    assert history.estimate("ada", "", JobType.EXECUTE).basis is Basis.DEFAULT
