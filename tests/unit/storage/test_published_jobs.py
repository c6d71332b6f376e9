"""The jobs in memory."""

from appliance.core.ids import JobId
from appliance.storage.queue.job_cache import PublishedJobs


def test_a_job_that_is_not_in_memory_can_be_forgotten():
    """Those that ended long ago are deleted, too."""
    jobs = PublishedJobs()
    jobs.forget(JobId("wsjob-a"))
    assert jobs.find(JobId("wsjob-a")) is None
