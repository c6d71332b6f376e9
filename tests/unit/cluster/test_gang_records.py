"""What is wanted of a gang is on the data volume, and whoever leads next finds it there."""

import datetime as dt
import os
import stat

import pytest

from appliance.cluster.kubernetes import manifests
from appliance.cluster.kubernetes.gang_records import GangRecords
from appliance.cluster.kubernetes.gangs import Progress
from appliance.cluster.kubernetes.manifests import pod_directory
from appliance.cluster.kubernetes.older_records import take_over
from tests.support.kube_jobs import make_gang, make_options

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OWNER = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u-owner"}


@pytest.fixture
def root(tmp_path):
    return tmp_path / "gangs" / "wafer"


@pytest.fixture
def records(root):
    return GangRecords(root, os.getgid())


@pytest.fixture
def gang(tmp_path, root, records):
    return write(records, tmp_path, root, make_gang(tmp_path))


def write(records, tmp_path, root, specs):
    options = make_options(tmp_path)
    made = manifests.gang(specs, OWNER, options, root, launched_at=NOW)
    files = manifests.files_by_member(specs, {})
    return records.write(specs[0].job, made, files, launched_at=NOW)


def test_the_next_management_finds_a_gang_as_it_was_left(records, gang):
    assert records.load() == {gang.job: gang}
    started = records.start(gang, NOW)
    assert (started.progress, started.started_at) == (Progress.STARTED, NOW)
    assert records.load() == {gang.job: started}
    for change, progress in ((records.stop, Progress.STOPPING), (records.end, Progress.STOPPED)):
        assert change(started).progress is progress
        assert records.load()[gang.job].progress is progress
    records.remove(gang.job)
    assert records.load() == {}


def test_a_stop_outlasts_the_start_of_a_management_that_has_lost_its_lead(records, gang):
    records.stop(gang)
    records.start(gang, NOW)
    assert records.load()[gang.job].progress is Progress.STOPPING


def hinted(root, gang):
    return {path.parent.name for path in pod_directory(root, gang.job, "").glob("*/start")}


@pytest.mark.parametrize(
    ("num_pods", "members"),
    [(1, {"coordinator-0"}), (4, {"coordinator-0", "weight-0", "chief-0", "chief-1"})],
)
def test_pods_are_hinted_at_their_start_together_and_not_before(
    tmp_path, root, records, num_pods, members
):
    gang = write(records, tmp_path, root, make_gang(tmp_path)[:num_pods])
    assert hinted(root, gang) == set()
    records.start(gang, NOW)
    assert hinted(root, gang) == members


def test_a_start_that_was_written_down_and_no_more_is_hinted_by_the_next_management(
    root, records, gang
):
    records.start(gang, NOW)
    for path in pod_directory(root, gang.job, "").glob("*/start"):
        path.unlink()
    records.load()
    assert hinted(root, gang) == {"coordinator-0", "weight-0", "chief-0", "chief-1"}


def test_a_pod_s_group_and_nobody_else_reads_its_directory(root, gang):
    directory = pod_directory(root, gang.job, "chief-0")
    assert stat.S_IMODE(directory.stat().st_mode) & 0o777 == 0o750
    assert stat.S_IMODE((directory / "spec.json").stat().st_mode) == 0o640


def test_a_launch_that_was_cut_off_is_cleared_away(root, records, gang):
    (root / gang.job / "gang.json").unlink()
    assert records.load() == {}
    assert not (root / gang.job).exists()


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"launched": "x", "pods": []}'])
def test_a_damaged_record_is_known_to_be_one(root, records, gang, text):
    (root / gang.job / "gang.json").write_text(text)
    assert records.load() == {gang.job: None}


def test_a_record_that_somebody_removes_does_not_keep_a_gang_from_its_end(root, records, gang):
    records.remove(gang.job)
    assert records.end(records.stop(gang)).progress is Progress.STOPPED
    assert records.load() == {}


class OlderCluster:
    """The config maps of an older version."""

    def __init__(self, *objects):
        self.objects = {each["metadata"]["name"]: each for each in objects}

    def list(self, kind, selector):
        return list(self.objects.values()), "1"

    def delete(self, kind, name):
        del self.objects[name]


@pytest.mark.parametrize(
    ("notes", "data", "progress"),
    [
        ({}, {}, None),
        ({"launched": NOW.isoformat()}, {}, Progress.PLACING),
        ({"launched": NOW.isoformat()}, {"start": NOW.isoformat()}, Progress.STARTED),
        ({"launched": NOW.isoformat(), "stop": "true"}, {}, Progress.STOPPING),
        ({"launched": NOW.isoformat(), "stop": "done"}, {}, Progress.STOPPED),
        ({"launched": NOW.isoformat()}, {"pods": "nonsense"}, None),
    ],
)
def test_gangs_of_an_older_version_go_on(records, notes, data, progress):
    prefix = "wsc.open-appliance.org"
    metadata = {
        "name": "wsjob-a-gang",
        "labels": {f"{prefix}/job": "wsjob-a"},
        "annotations": {f"{prefix}/{key}": each for key, each in notes.items()},
    }
    pods = '[{"metadata": {"name": "wsjob-a-driver-0"}, "spec": {}}]'
    cluster = OlderCluster({"metadata": metadata, "data": {"pods": pods, **data}})
    take_over(cluster, records)
    found = records.load()
    assert [each.progress for each in found.values()] == ([progress] if progress else [])
    assert cluster.objects == {}
