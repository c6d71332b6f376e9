"""A job of an idle appliance that reports as a training coordinator does, as fast as one likes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from protos.wsc.v1 import management_pb2, management_pb2_grpc
from tests.support.appliance_process import ApplianceProcess

SERIES = ("output_loss", "samples_per_second", "learning_rate")


@dataclass
class BusyJob:
    """A running job.

    Attributes:
        id: Its id.
        log: The log of its coordinator.
        step: Steps reported so far.
    """

    id: str
    log: Path
    stub: management_pb2_grpc.ManagementStub
    step: int = field(default=0)

    @classmethod
    @contextmanager
    def start(cls, appliance: ApplianceProcess) -> Iterator["BusyJob"]:
        """Submit a job, wait until it runs, and speak for its coordinator."""
        job = appliance.submit_execute()
        appliance.wait_ready(job)
        log = appliance.data_dir / "jobs" / job / "logs" / "coordinator-0.log"
        target = f"unix:{appliance.state.runtime_root}/management.sock"
        with grpc.insecure_channel(target) as channel:
            yield cls(job, log, management_pb2_grpc.ManagementStub(channel))

    def change(self, times: int) -> None:
        """Report so many steps one by one, each with readings and a line in the log."""
        for _ in range(times):
            self.step += 1
            with self.log.open("a") as log:
                log.write(f"line of step {self.step}\n")
            self.stub.ReportJob(self._report())

    def _report(self) -> management_pb2.JobReport:
        points = [
            management_pb2.SeriesPoint(
                name=name, session=1, step=self.step, value=1 / self.step, at_seconds=1e9
            )
            for name in SERIES
        ]
        pod = management_pb2.PodReport(
            pod=f"{self.id}-chief-0",
            role="chief",
            step=self.step,
            readings={"wsc_csx_step_seconds": 0.2},
        )
        return management_pb2.JobReport(job=self.id, pods=[pod], points=points)
