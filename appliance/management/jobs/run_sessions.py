"""The sessions of execute jobs: how far they are, and what is known of each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from appliance.core.cluster.records import JobRecord, PodRecord
from appliance.core.cluster.run import PodReadings, RunProgress, RunSession
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.files.profiles import find_profile, find_wafer_picture
from appliance.management.reconciler.mailbox import Mailbox, Wake
from appliance.management.store.state import State
from protos.appliance.appliance_service_pb2 import FinalizeResponse


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
            self._mailbox.post(Wake())
        elif book.note(job.id, progress):
            self._mailbox.post(Wake())

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

    def profile(self, job: JobId, number: int | None = None) -> FinalizeResponse:
        """Return the profile of one step of a session's program, in which all times are simulated.

        Args:
            number: The session; None for the last one that has a profile.

        Raises:
            NotFoundError: There is no such job or session, or it has no profile.
        """
        found = find_profile(self._work_dir(job), number)
        if found is None:
            hint = "Execute jobs have one once a program is loaded."
            raise NotFoundError(f"{self._name(job, number)} has no profile.", hint=hint)
        return found

    def wafer_picture(self, job: JobId, number: int | None = None) -> str:
        """Return where the layer steps of a session lie on the wafer, a `WaferPicture` as JSON.

        Args:
            number: The session; None for the last one that has a picture.

        Raises:
            NotFoundError: There is no such job or session, or it has no picture.
        """
        found = find_wafer_picture(self._work_dir(job), number)
        if found is None:
            hint = "Execute jobs have one once a program is loaded, if any of it runs on the wafer."
            raise NotFoundError(
                f"{self._name(job, number)} has no picture of the wafer.", hint=hint
            )
        return found

    def _work_dir(self, job: JobId) -> Path:
        return Path(self._state.jobs.load(job).work_dir)

    def _name(self, job: JobId, number: int | None) -> str:
        """Return what a job's session is called; raises `NotFoundError` if there is none."""
        if number is None:
            return f"Job {job}"
        return f"Session {self.one(job, number).number} of job {job}"


def with_readings(pod: PodRecord, readings: PodReadings) -> PodRecord:
    """Return a pod with the readings that it had of a session."""
    return replace(
        pod,
        step=readings.step,
        resident_bytes=readings.resident_bytes,
        readings=readings.readings,
    )
