"""wsjobs as other programs treat objects: GitOps, generated names, dry runs, namespaces that go."""

import json

import pytest
import yaml

from appliance.cluster.kubernetes.object_kinds import POD, WSJOB, name_of
from appliance.core.queries.job_filter import JobFilter
from tests.kubernetes.test_wsjobs import (  # noqa: F401 - fixtures
    DRIVER,
    admin,
    apply,
    harness,
    nodes,
    status_of,
    wait_for_status,
    wait_gone,
)
from tests.support.waiting import wait_until


def jobs_of(harness):  # noqa: F811
    return harness.jobs.list(JobFilter(with_finished=True))


@pytest.mark.parametrize("way", [(), ("--server-side", "--force-conflicts")])
def test_an_object_that_is_applied_again_is_the_same_job(kube, account, admin, harness, way):  # noqa: F811
    apply(kube, account, DRIVER, *way)
    wait_for_status(admin, "my-run", phase="RUNNING")
    before = admin.find(WSJOB, "my-run")
    apply(kube, account, DRIVER, *way)
    after = admin.find(WSJOB, "my-run")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["spec"] == before["spec"], "the appliance changes no spec that somebody applies"
    assert len(jobs_of(harness)) == 1


def test_names_that_the_server_makes_are_jobs_of_their_own(kube, account, admin, harness):  # noqa: F811
    metadata = {"generateName": f"{'n' * 40}-"}
    given = yaml.safe_dump({**DRIVER, "metadata": metadata})
    names = [
        kube.kubectl(
            *("create", "-f", "-", "-o", "name"), namespace=account.namespace, given=given
        ).strip()
        for _ in range(2)
    ]
    assert len(set(names)) == 2
    for name in names:
        wait_until(
            lambda name=name: status_of(admin, name.partition("/")[2]).get("phase"),
            seconds=120,
            what="a phase",
        )
    assert len(jobs_of(harness)) == 2


def test_a_dry_run_makes_no_job(kube, account, admin, harness):  # noqa: F811
    apply(kube, account, DRIVER, "--dry-run=server")
    assert admin.find(WSJOB, "my-run") is None
    apply(kube, account, {**DRIVER, "metadata": {"name": "next"}})
    wait_for_status(admin, "next", phase="RUNNING")
    assert len(jobs_of(harness)) == 1


def test_the_longest_name_of_an_object_is_taken(kube, account, admin, harness):  # noqa: F811
    name = "n" * 253
    apply(kube, account, {**DRIVER, "metadata": {"name": name}})
    wait_for_status(admin, name, phase="RUNNING")
    pods = [name_of(each) for each in admin.list(POD)[0]]
    assert all(len(each) <= 63 for each in pods), pods


def test_a_namespace_that_is_deleted_takes_its_jobs_along(kube, account, admin, harness):  # noqa: F811
    """The server deletes all objects, and our finalizers let them go."""
    second = {**DRIVER, "metadata": {"name": "waits"}}
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    apply(kube, account, second)
    wait_until(lambda: status_of(admin, "waits").get("phase"), seconds=120, what="a phase")
    for kind in (WSJOB, POD):
        admin._call("DELETE", kind.path(account.namespace))
    for name in ("my-run", "waits"):
        wait_gone(admin, name)
    wait_until(
        lambda: not admin.list(POD)[0],
        seconds=120,
        what="no pods",
        seen=lambda: json.dumps(admin.list(POD)[0], indent=1),
    )
    assert all(each.phase.is_terminal for each in jobs_of(harness))
