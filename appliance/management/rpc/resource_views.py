"""The resources of `csctl get`: objects for programs, tables for people."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil
from google.protobuf.message import Message

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.requirements import NODE_ROLES
from appliance.core.cluster.run import not_finite_words
from appliance.core.errors import NotFoundError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobFilter, JobLine, JobOrder
from appliance.core.queries.label_selector import equal_to, parse_selector
from appliance.management.cluster.inventory import Inventory, this_node
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.job_lists import JobLists
from appliance.management.jobs.job_service import JobService, JobView
from appliance.management.store import versions
from appliance.management.store.state import State
from appliance.scheduler.waiting.wait_reasons import Wait
from appliance.wire import resources
from appliance.wire.caller import Caller
from appliance.wire.job_times import ended_properties, masked_weight_properties, progress_properties
from protos.csctl import generic_pb2
from protos.csctl import resources_pb2 as pb
from protos.csctl.api_pb2 import GetOptions

_View = Callable[[str, GetOptions, Caller], Message]
Listed = JobRecord | JobLine
"""A job that was named, or one of a list."""

_UIDS_OF_ALL = frozenset({0, -1})
"""The jobs of all users: ours says nothing, the csctl of a release says -1."""

_OF_ONE_JOB = frozenset({"profile"})
"""Types of which there is one for each job, asked for by the job's name."""


class ResourceViews:
    """Resources by type, as messages and as tables.

    Args:
        state: The appliance's database; gives the time for ages.
        inventory: Systems and nodes.
        sessions: The namespaces that there are.
        machine: What each system simulates.
        data_dir: Where jobs work.
        is_one_machine: Whether users work on the machine on which pods run.
    """

    def __init__(
        self,
        state: State,
        jobs: JobService,
        lists: JobLists,
        inventory: Inventory,
        *,
        sessions: SessionService,
        machine: str,
        data_dir: Path,
        is_one_machine: bool,
    ) -> None:
        self._is_one_machine = is_one_machine
        self._sessions = sessions
        self._data_dir = data_dir
        self._clock = state.clock
        self._jobs = jobs
        self._lists = lists
        self._inventory = inventory
        self._platform = f"simulated {machine}"
        self._views: Mapping[str, _View] = {
            "job": self._job,
            "profile": self._profile,
            "cluster": self._cluster,
            "system": self._systems,
            "node": self._nodes,
            "nodegroup": self._node_groups,
            "volume": self._volumes,
            "version": self._version,
            "worker-cache": self._worker_caches,
        }

    @property
    def types(self) -> Sequence[str]:
        """The names of the types that can be listed."""
        return sorted(self._views.keys() - _OF_ONE_JOB)

    def objects(self, kind: str, name: str, options: GetOptions, caller: Caller) -> Message:
        """Return resources of a type, or one of them by name.

        Args:
            kind: The type, singular or plural.
            name: Name of one resource; empty for all.
            options: Filters.
            caller: Who asks, and with which release.

        Raises:
            UserError: There is no such type.
            NotFoundError: There is no resource of that name.
        """
        view = self._views.get(kind.lower()) or self._views.get(kind.lower().removesuffix("s"))
        if view is None:
            raise UserError(
                f"There is no resource type {kind!r}.", hint=f"Types are {', '.join(self.types)}."
            )
        return view(name, options, caller)

    def table(self, kind: str, name: str, options: GetOptions, caller: Caller) -> generic_pb2.Table:
        """Return the same as a table ready to print."""
        if kind.lower() in ("job", "jobs"):
            found = self.find_jobs(name, options, caller)
            return self.job_table(found)
        message = self.objects(kind, name, options, caller)
        match message:
            case pb.NodeInfoList():
                rows = [resources.node_row(item) for item in message.items]
                return resources.table(resources.NODE_COLUMNS, rows)
            case pb.VolumeList():
                return resources.table(
                    resources.VOLUME_COLUMNS, map(resources.volume_row, message.items)
                )
            case pb.NodeGroupList():
                return resources.table(
                    resources.NODE_GROUP_COLUMNS, map(resources.node_group_row, message.items)
                )
            case pb.WorkerCacheList():
                rows = [[item.meta.name, item.status.disk_usage_percent] for item in message.items]
                return resources.table(("NODE", "DISK USAGE"), rows)
            case _:
                return resources.table(("NAME", "VALUE"), resources.scalar_rows(message))

    def job_table(self, jobs: Sequence[Listed]) -> generic_pb2.Table:
        """Return the table of some jobs."""
        now = self._clock.now()
        rows = [
            resources.job_row(job, now=now, dashboard=self._jobs.dashboard(job.id)) for job in jobs
        ]
        return resources.table(resources.JOB_COLUMNS, rows)

    def job_list(self, jobs: Sequence[Listed], *, with_pending: bool) -> pb.JobList:
        """Return some jobs as a list, without their pods."""
        return pb.JobList(
            items=[
                resources.job(
                    job,
                    dashboard=self._jobs.dashboard(job.id),
                    namespace=self._jobs.namespace_of(job),
                    pending=_pending(job, self._jobs.wait_of(job.id)) if with_pending else None,
                    readings=self._progress(job.id) if with_pending else {},
                )
                for job in jobs
            ]
        )

    def job_object(self, job: JobId) -> pb.Job:
        """Return one job with its pods and its history."""
        view = self._jobs.view(job)
        return resources.job(
            view.job,
            pods=view.pods,
            events=view.events,
            dashboard=self._jobs.dashboard(job),
            namespace=self._jobs.namespace_of(view.job),
            pending=_pending(view.job, view.wait),
            readings=self._last_progress(view),
        )

    def find_jobs(self, name: str, options: GetOptions, caller: Caller) -> Sequence[Listed]:
        """Return the jobs that a request is about, in the order it asks for."""
        if name:
            return [self._jobs.load(JobId(name))]
        session = options.namespace or caller.session_of_lists
        if session:
            self._sessions.load(session)
        uid = None if options.uid in _UIDS_OF_ALL else options.uid
        if options.current_user_only:
            uid = caller.user.uid
        return self._lists.page(
            JobFilter(
                session=session,
                workflow=options.workflow_id,
                uid=uid,
                labels=(*equal_to(options.label_filters), *parse_selector(options.selectors)),
                with_finished=options.all_states,
                order=_order(options),
                limit=options.limit,
            )
        )

    def _progress(self, job: JobId) -> dict[str, str]:
        progress = self._jobs.run_sessions.progress(job)
        if progress is None:
            return {}
        return progress_properties(progress, now_seconds=self._clock.now().timestamp())

    def _last_progress(self, view: JobView) -> dict[str, str]:
        """Return how far a job is; of one whose sessions are over, how far the last one was."""
        if view.job.type is not JobType.EXECUTE:
            return {}
        sessions = self._jobs.run_sessions.of_job(view.job.id)
        if not sessions:
            return {}
        last = {
            "num_run_sessions": str(len(sessions)),
            "not_finite": not_finite_words(self._lists.state.series.not_finite(view.job.id)),
            **masked_weight_properties(sessions[-1].masked_weights),
        }
        if now := self._progress(view.job.id):
            return {**last, **now}
        return {**last, **ended_properties(sessions[-1])}

    def _job(self, name: str, options: GetOptions, caller: Caller) -> Message:
        if name:
            return self.job_object(JobId(name))
        found = self.find_jobs(name, options, caller)
        return self.job_list(found, with_pending=options.show_pending_status)

    def _profile(self, name: str, options: GetOptions, caller: Caller) -> Message:
        return self._jobs.run_sessions.profile(JobId(name))

    def _cluster(self, name: str, options: GetOptions, caller: Caller) -> Message:
        items: list[pb.NodeInfo] = []
        if not options.system_only:
            items += self._node_items()
        if not options.node_only:
            items += self._system_items()
        return _selected(items, name, options)

    def _systems(self, name: str, options: GetOptions, caller: Caller) -> Message:
        return _selected(self._system_items(), name, options)

    def _nodes(self, name: str, options: GetOptions, caller: Caller) -> Message:
        return _selected(self._node_items(), name, options)

    def _node_groups(self, name: str, options: GetOptions, caller: Caller) -> Message:
        uses = self._inventory.group_uses()
        items = [resources.node_group(use.group, use.holder) for use in uses]
        return pb.NodeGroupList(items=[item for item in items if name in ("", item.meta.name)])

    def _volumes(self, name: str, options: GetOptions, caller: Caller) -> Message:
        found = resources.root_volumes(this_node().name, is_one_machine=self._is_one_machine)
        return pb.VolumeList(items=found)

    def _worker_caches(self, name: str, options: GetOptions, caller: Caller) -> Message:
        """Say how full the disk is on which worker nodes work."""
        percent = psutil.disk_usage(str(self._data_dir)).percent
        return pb.WorkerCacheList(
            items=[
                pb.WorkerCache(
                    meta=pb.ObjectMeta(type="worker-cache", name=node.name),
                    status=pb.WorkerCacheStatus(disk_usage_percent=f"{percent:.2f}%"),
                )
                for node in self._inventory.nodes
                if "worker" in node.roles
            ]
        )

    def _version(self, name: str, options: GetOptions, caller: Caller) -> Message:
        is_served = caller.client_release in versions.CLIENT_BUILDS  # ours has a number of its own
        version, githash = versions.client_build(caller.client_release if is_served else "")
        text = f"{version}+{githash}"
        return pb.VersionInfo(
            meta=pb.ObjectMeta(type="version", name="version"),
            cluster_server=text,
            job_operator=text,
            cbcore=text,
            csctl=text,
        )

    def _system_items(self) -> list[pb.NodeInfo]:
        return [
            resources.system(use.system, use.holder, platform_version=self._platform)
            for use in self._inventory.system_uses()
        ]

    def _node_items(self) -> list[pb.NodeInfo]:
        return [
            resources.node(use.node, use.load, use.holders) for use in self._inventory.node_uses()
        ]


def _selected(items: list[pb.NodeInfo], name: str, options: GetOptions) -> pb.NodeInfoList:
    name = name or options.system
    _check_role(options.role, items)
    if name:
        items = [item for item in items if item.meta.name == name]
        if not items:
            raise NotFoundError(f"There is no node or system {name!r}.")
    if options.error_only:
        items = [item for item in items if item.state != "ok"]
    if options.role:
        items = [item for item in items if options.role in item.role.split(",")]
    if options.version:
        is_of_version = _version_filter(options.version)
        items = [item for item in items if is_of_version(item.platform_version)]
    return pb.NodeInfoList(items=items)


def _check_role(wanted: str, items: Sequence[pb.NodeInfo]) -> None:
    """Refuse a role that no node can have, or a slip would list none."""
    known = {*NODE_ROLES, *(role for item in items for role in item.role.split(",") if role)}
    if wanted and wanted not in known:
        raise UserError(
            f"There is no role {wanted[:80]!r}.", hint=f"Roles are {', '.join(sorted(known))}."
        )


def _version_filter(wanted: str) -> Callable[[str], bool]:
    """Return whether a platform's version is, or is not, the one of `version=v1`, `version!=v1`."""
    key, operator, version = wanted.partition("!=" if "!=" in wanted else "=")
    if key != "version" or not version:
        raise UserError(
            f"{wanted!r} is no filter of versions.", hint="Write version=NAME or version!=NAME."
        )
    return lambda found: (found == version) == (operator == "=")


def _order(options: GetOptions) -> JobOrder:
    """Return the order of a list of jobs; `desc`, the default, has the highest or oldest first."""
    is_reversed = options.order_by == "asc"
    if options.sort_by == "age":
        return JobOrder.NEWEST if is_reversed else JobOrder.OLDEST
    return JobOrder.REVERSED if is_reversed else JobOrder.PRIORITY


def _pending(job: Listed, wait: Wait | None) -> pb.JobPendingStatus | None:
    if wait is None:
        return None
    place = f"position {wait.position + 1} among waiting {job.type.queue_type.value} jobs"
    return pb.JobPendingStatus(
        blocking_jobs={each: pb.BlockingJobInfo(granted=True) for each in wait.blocking},
        pending_reason=wait.reason,
        pending_details=place,
    )
