"""Carries an episode out on real processes and judges what has become of the job."""

import contextlib
import signal
import time
from dataclasses import dataclass, field

import grpc

from protos.cluster import cluster_pb2
from tests.chaos import processes
from tests.chaos.actions import Action
from tests.chaos.faults import ROLES, Episode, Fault, Promise
from tests.chaos.processes import pause
from tests.chaos.world import read_story

SECONDS_PER_BATCH = 0.04
HUNG_SECONDS = 30.0
_READY_SECONDS = 60.0
"""How long a job may take to begin on a machine that many share."""
_CLEAN_SECONDS = 15.0
NOTICED_SECONDS = 7.0
_NAMED_SECONDS = 10.0
_STARVED_SECONDS = 20.0
"""How soon a pod needs another page of memory; one that does not was not met."""
_ENDED = (
    cluster_pb2.JOB_STATUS_FAILED,
    cluster_pb2.JOB_STATUS_CANCELLED,
    cluster_pb2.JOB_STATUS_SUCCEEDED,
    cluster_pb2.JOB_STATUS_FAILING,
)


@dataclass(kw_only=True)
class Finding:
    """What has become of a job after a fault.

    Attributes:
        fault: The fault.
        misses: What was promised and did not hold, by kind.
        reason_seconds: From the fault to its named reason; None where there is none to be named.
        is_late: Whether the job had ended before the fault could meet it.
    """

    fault: Fault
    misses: dict[str, str] = field(default_factory=dict)
    reason_seconds: float | None = None
    is_late: bool = False


class Run:
    """One job of a world that is hurt.

    Args:
        world: The appliance.
        episode: What is done.
        reference: Losses of a job of that shape that nobody disturbs.
    """

    def __init__(self, world, episode: Episode, reference) -> None:
        self.world, self.episode, self.reference = world, episode, reference
        self.name = f"run-{episode.number}"
        self.out = world.story_path(self.name, is_detached=episode.is_detached)
        self.steps = 20 * (len(episode.faults) + 1)
        self.victims: list[str] = []
        self.client = None
        self.driver = ""

    def carry_out(self) -> list[Finding]:
        """Run the job, do to it what is planned, and judge."""
        self._start()
        findings = []
        try:
            for fault, seconds in zip(self.episode.faults, self.episode.pauses, strict=True):
                if not findings and self.episode.is_early:
                    self._wait_for("job", self._patiently(_READY_SECONDS))
                else:
                    self._wait_for("streaming", self._patiently(_READY_SECONDS))
                pause(seconds)
                findings.append(self._strike(fault))
            self.world.release(self.name)
            self._judge(findings)
        finally:
            self._clean()
        return findings

    def _start(self):
        episode, name = self.episode, self.name
        options = {"steps": self.steps, "seconds_per_batch": SECONDS_PER_BATCH}
        if episode.is_detached:
            with self.world.exclusive:  # so that management is there
                self.driver = self.world.submit_detached(name, episode.shape, limit=5, **options)
        else:
            self.client = self.world.start_client(name, episode.shape, **options)

    def _patiently(self, seconds):
        return seconds * self.world.patience

    def _story(self, key):
        return [each[key] for each in read_story(self.out) if key in each]

    @property
    def job(self):
        """The execute job that runs now, or ran last."""
        return (self._story("job") or [""])[-1]

    def _wait_for(self, key, seconds):
        deadline = time.monotonic() + seconds
        while not self._story(key) and time.monotonic() < deadline and not self._is_over():
            pause(0.02)

    def _is_over(self):
        if self.client is not None:
            return self.client.poll() is not None
        answer = self.world.job(self.driver)
        return answer is not None and answer.status in _ENDED

    # Blows

    def _strike(self, fault: Fault) -> Finding:
        finding = Finding(fault=fault)
        if self._is_over():
            finding.is_late = True
            return finding
        is_guarded = fault.is_common or fault.is_final or fault.freezes_seconds >= NOTICED_SECONDS
        with contextlib.ExitStack() as stack:
            if is_guarded:
                stack.enter_context(self.world.exclusive)
            if fault.promise is Promise.CANCELLED:
                self._await_renewal()
            targets = self._find(fault)
            if not targets or self._is_over():
                finding.is_late = True
                return finding
            if fault.is_common:
                stack.enter_context(self.world.presence.absence())
            self._hit(fault, targets)
            if not self._has_met(fault, targets):
                finding.is_late = True
                return finding
            begun = time.monotonic()
            if fault.is_final and not fault.takes_management:
                finding.reason_seconds = self._await_reason(finding, begun)
            self._after(fault, targets, finding, begun)
        return finding

    def _await_renewal(self):
        """Wait for the next beat; a new management gives two minutes for the first."""
        known = len(self._story("renewed"))
        deadline = time.monotonic() + self._patiently(_READY_SECONDS)
        while len(self._story("renewed")) == known and time.monotonic() < deadline:
            pause(0.05)

    def _find(self, fault):
        """Return the processes of a fault's targets; a job that begins has not all of them yet."""
        deadline = time.monotonic() + self._patiently(_READY_SECONDS)
        while time.monotonic() < deadline and not self._is_over():
            self.victims = []
            if all(pids := [self._pid_of(blow.target) for blow in fault.blows]):
                return pids
            pause(0.05)
        return []

    def _hit(self, fault, targets):
        for blow, pid in zip(fault.blows, targets, strict=True):
            self.world.hit(blow, pid)

    def _has_met(self, fault, targets):
        """Wait until the kernel has ended what has no memory; False if it never needs more."""
        deadline = time.monotonic() + self._patiently(_STARVED_SECONDS)
        for blow, pid in zip(fault.blows, targets, strict=True):
            while blow.action is Action.LIMIT and processes.is_alive(pid):
                if time.monotonic() > deadline:
                    self.world.mend(blow, pid)
                    return False
                pause(0.01)
        return True

    def _after(self, fault, targets, finding, begun):
        """Let go what was stopped, put back what was killed or set."""
        for blow, pid in sorted(
            zip(fault.blows, targets, strict=True), key=lambda pair: _lasts(pair[0])
        ):
            pause(max(0.0, begun + _lasts(blow) - time.monotonic()))
            self.world.mend(blow, pid)
        if fault.takes_management:
            self.world.replace_management()
            if fault.is_final:
                finding.reason_seconds = self._await_reason(finding, time.monotonic())
        if any(blow.action is Action.SET for blow in fault.blows):
            pause(1.5)  # a few looks at the leases
            self.world.set_clock(0)
        stopped = [b for b in fault.blows if b.action is Action.STOP and b.target in ROLES[:6]]
        if not fault.is_final and stopped and fault.freezes_seconds >= NOTICED_SECONDS:
            finding.reason_seconds = self._await_notice(finding, begun)

    def _pid_of(self, target):
        if target == "client":
            return self.client.pid if self.client is not None else 0
        name = self.driver if target == "driver" else self.job
        pods = processes.pods_of(name) if name else {}
        if target not in (*ROLES, "driver"):
            return self.world.find(target, pods)
        alike = sorted(member for member in pods if member.rpartition("-")[0] == target)
        if not alike:
            return 0
        self.victims.append(alike[-1])
        return pods[alike[-1]]

    # Judgement

    def _await_reason(self, finding, begun):
        """Wait until management says why the job has ended; return how long that took."""
        limit = self._patiently(self._reason_seconds(finding.fault) + HUNG_SECONDS)
        while time.monotonic() < begun + limit:
            answer = self.world.job(self.job)
            if answer is not None and answer.status in _ENDED and answer.message:
                seconds = time.monotonic() - begun
                self._check_reason(finding, answer, seconds)
                return seconds
            pause(0.05)
        finding.misses["hung"] = f"{self.job} has no end after {limit:g} s"
        return None

    def _reason_seconds(self, fault):
        """Return how long it may take until the reason is said."""
        is_lease = fault.promise is Promise.CANCELLED
        return _NAMED_SECONDS + (self.world.lease_seconds if is_lease else 0.0)

    def _check_reason(self, finding, answer, seconds):
        words = self._names(finding.fault)
        if not any(word in answer.message for word in words):
            finding.misses["reason"] = f"{words} not in {answer.message!r}"
        if seconds > self._patiently(self._reason_seconds(finding.fault)):
            finding.misses["late reason"] = f"{seconds:.1f} s"

    def _names(self, fault):
        words = []
        for blow in fault.blows:
            if not blow.is_final:
                continue
            if blow.target == "client":
                words.append("lease expired")
            elif blow.target == "streamer":
                words += ["nput worker", f"{self.job}-worker"]
            elif blow.target in ROLES:
                words.append(f"{self.job}-{blow.target}-")
            else:
                words += self.world.names(blow.target, self.job)
        return words

    def _await_notice(self, finding, begun):
        """Wait for the event that names a pod that was frozen."""
        request = cluster_pb2.GetJobEventsRequest(job_id=self.job)
        pods = [f"{self.job}-{b.target}-" for b in finding.fault.blows if b.action is Action.STOP]
        while time.monotonic() < begun + self._patiently(10.0):
            events = ()
            with self.world.management() as stub, contextlib.suppress(grpc.RpcError):
                events = stub.GetJobEvents(
                    request, timeout=5, metadata=self.world.metadata
                ).job_events
            if any("PodSilent" in e.reason and any(p in e.message for p in pods) for e in events):
                return time.monotonic() - begun
            pause(0.1)
        finding.misses["reason"] = "no event names the frozen pod"
        return None

    def _judge(self, findings):
        last = findings[-1]
        promise = last.fault.promise
        if last.is_late:
            promise = Promise.GOES_ON
        limit = self.steps * SECONDS_PER_BATCH + HUNG_SECONDS
        if promise is Promise.RESTARTS:
            limit += _READY_SECONDS
        limit = self._patiently(limit)
        begun = time.monotonic()
        # Once it is over it stays so, even while management is stopped and cannot say it again.
        while not (is_over := self._is_over()) and self.world.presence.seconds(begun) < limit:
            pause(0.05)
        if not is_over:
            last.misses["hung"] = f"{self.driver or self.job} goes on after {limit:.0f} s"
            return
        self._judge_end(last, promise)
        self._judge_rest(last)

    def _judge_end(self, last, promise):
        ends = self._story("end")
        if promise is Promise.FAILS:
            self._judge_last_words(last)
            return
        if promise is Promise.CANCELLED:
            return
        if ends[-1:] != ["succeeded"]:
            reason = self._story("reason") or self._story("error")
            last.misses["lost"] = f"{self.job} ended {ends[-1:]}: {reason[-1:]}"
            return
        if ends.count("succeeded") > 1:
            last.misses["duplicated"] = f"{self.driver or self.job} has run {ends}"
        story = read_story(self.out)
        begin = max(i for i, each in enumerate(story) if "job" in each)
        losses = [each["loss"] for each in story[begin:] if "loss" in each]
        if losses != self.reference[: self.steps]:
            last.misses["losses differ"] = f"{self.job}: {len(losses)} of {self.steps}"

    def _judge_last_words(self, last):
        """Look whether what the client prints last names what was lost."""
        told = (self._story("last") or self._story("error") or [""])[-1]
        words = self._names(last.fault)
        if self.client is not None and not any(word in told for word in words):
            last.misses["last words"] = f"{words} not in {told!r}"

    def _judge_rest(self, last):
        jobs = {job for job in (*self._story("job"), self.driver) if job}
        deadline = time.monotonic() + self._patiently(_CLEAN_SECONDS)
        while True:
            left = self.world.left_of(jobs)
            if not left or time.monotonic() > deadline:
                break
            pause(0.1)
        if left:
            last.misses["left over"] = ", ".join(left)[:300]
        if not self.driver and len(jobs) > 1:
            last.misses["duplicated"] = f"jobs {jobs}"

    def _clean(self):
        if self.client is not None and self.client.poll() is None:
            self.client.send_signal(signal.SIGCONT)
            self.client.kill()
            self.client.wait()


def _lasts(blow):
    return blow.seconds if blow.is_undone else 0.0
