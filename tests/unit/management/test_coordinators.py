"""Where coordinators of other hosts are is told of jobs, and of nothing else that is named."""

import pytest

from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.files.kept_files import sealed
from appliance.management.pods.coordinators import ADDRESS_FILE, CoordinatorAddresses


def test_only_a_jobs_own_directory_is_looked_into(tmp_path):
    jobs = tmp_path / "jobs"
    for name in ("wsjob-a", "../other"):
        (jobs / name).mkdir(parents=True)
        (jobs / name / ADDRESS_FILE).write_bytes(sealed(f"node:{len(name)}".encode()))
    (jobs / "wsjob-b").symlink_to(tmp_path / "other")
    addresses = CoordinatorAddresses(jobs)

    assert addresses.find(JobId("wsjob-a")) == "node:7"
    assert addresses.find(JobId("wsjob-c")) == ""
    for name in ("../other", "..", "", "/", "wsjob-b", "wsjob-a\0"):
        with pytest.raises(UserError):
            addresses.find(JobId(name))
