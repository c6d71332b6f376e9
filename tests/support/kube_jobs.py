"""Jobs and launchers for tests against a Kubernetes API server."""

import contextlib
import queue
from pathlib import Path, PurePosixPath

from appliance.cluster.kubernetes.kubernetes_launcher import KubernetesLauncher
from appliance.cluster.kubernetes.object_kinds import WSJOB
from appliance.cluster.kubernetes.options import DataVolume, KubernetesOptions
from appliance.cluster.launcher import JobStopped, PodExit, PodsWait
from appliance.core.clock import SystemClock
from appliance.core.ids import JobId, Role, new_job_id
from appliance.core.pods.pod_options import PodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.kubernetes.wsjob_objects import owner_reference

MEMBERS = (
    (Role.COORDINATOR, 0),
    (Role.WEIGHT, 0),
    (Role.CHIEF, 0),
    (Role.CHIEF, 1),
)


def make_options(directory: Path, **changes) -> KubernetesOptions:
    fields = {
        "image": "wsc-appliance:test",
        "data_volume": DataVolume(claim="wsc-data", path=PurePosixPath(directory)),
        "runtime_root": PurePosixPath(directory / "run"),
        "placement_seconds": 60.0,
        "group_id": 1,
    }
    return KubernetesOptions(**{**fields, **changes})


def make_gang(directory: Path, job: JobId | None = None, members=MEMBERS) -> tuple[PodSpec, ...]:
    job = job or new_job_id()
    return tuple(
        PodSpec(
            job=job,
            role=role,
            index=index,
            runtime_dir=directory / "run" / job,
            work_dir=directory / "jobs" / job,
            management_address="",
            options=PodOptions(user_uid=1000, user_gid=100),
        )
        for role, index in members
    )


class Owners:
    """Makes a wsjob for each job that wants an owner."""

    def __init__(self, api) -> None:
        self._api = api

    def __call__(self, job):
        found = self._api.find(WSJOB, job)
        if found is None:
            body = {"metadata": {"name": job}, "spec": {"type": "execute"}}
            found = self._api.create(WSJOB, body)
        return owner_reference(found)


@contextlib.contextmanager
def running_launcher(api, options, clock=None):
    launcher = KubernetesLauncher(api, options, Owners(api), clock or SystemClock())
    try:
        yield launcher
    finally:
        launcher.close()


def next_exit(launcher, *, seconds=120) -> PodExit | JobStopped:
    """Return what ends next, whatever has waited before."""
    while True:
        try:
            end = launcher.exits.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError("nothing has ended") from None
        if not isinstance(end, PodsWait):
            return end


def wait_stopped(launcher, job, *, seconds=120) -> list[PodExit]:
    """Return what ended before the job had stopped."""
    ends = []
    while True:
        end = next_exit(launcher, seconds=seconds)
        if isinstance(end, JobStopped):
            assert end.job == job
            return ends
        ends.append(end)
