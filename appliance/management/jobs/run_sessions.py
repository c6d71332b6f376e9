"""The sessions of execute jobs: how far they are, and what their pods reported of each."""

from collections.abc import Sequence
from dataclasses import replace

from appliance.core.cluster.records import JobRecord, PodRecord
from appliance.core.cluster.run import PodReadings, RunProgress, RunSession
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.store.state import State


class RunSessions:
    """Takes the coordinators' reports of their sessions, and answers questions about them.

    Args:
        state: The appliance's database.
        mailbox: Has what the queue goes by.
    """

    def __init__(self, state: State, mailbox: Mailbox) -> None:
        self._state = state
        self._mailbox = mailbox

    def note(self, job: JobRecord, session: RunSession) -> None:
        """Keep how far a session is; wake the queue if others will start at another time now."""
        self._state.run_sessions.keep(job.id, session)
        book = self._mailbox.progress
        if job.phase.is_terminal:
            book.forget(job.id)
            return
        progress = RunProgress(
            session=session.number,
            num_steps=session.num_steps,
            completed_steps=session.completed_steps,
            step_seconds=session.step_seconds,
            at_seconds=self._state.clock.now().timestamp(),
        )
        if session.ended_at is not None:
            book.complete(job.id, progress)
            self._mailbox.reschedule()
        elif book.note(job.id, progress):
            self._mailbox.reschedule()

    def now_seconds(self) -> float:
        """Return the time that progress is told for, since the epoch."""
        return self._state.clock.now().timestamp()

    def progress(self, job: JobId) -> RunProgress | None:
        """Return how far a job's present session is; None if none runs."""
        return self._mailbox.progress.find(job)

    def count(self, job: JobId) -> int:
        """Return how many sessions a job has run, the present one too."""
        return self._state.run_sessions.count(job)

    def of_job(self, job: JobId) -> Sequence[RunSession]:
        """Return the sessions that an execute job has run, each with its pods' readings.

        The readings of one that is not over are those that the pods have now.
        """
        found = list(self._state.run_sessions.of_job(job))
        if found and found[-1].ended_at is None:
            pods = {
                pod.name: PodReadings(
                    step=pod.step, resident_bytes=pod.resident_bytes, readings=pod.readings
                )
                for pod in self._state.pods.of_job(job)
            }
            found[-1] = replace(found[-1], pods=pods)
        return found

    def one(self, job: JobId, number: int) -> RunSession:
        """Return one of a job's sessions; raises `NotFoundError`."""
        found = self.of_job(job)
        for session in found:
            if session.number == number:
                return session
        has = f"it has run {found[-1].number}" if found else "it has run none"
        raise NotFoundError(f"Job {job} has no session {number}: {has}.")


def with_readings(pod: PodRecord, readings: PodReadings) -> PodRecord:
    """Return a pod with the readings that it had of a session."""
    return replace(
        pod,
        step=readings.step,
        resident_bytes=readings.resident_bytes,
        readings=readings.readings,
    )
