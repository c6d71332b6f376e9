"""The summary of a session's times at its end: simulated and wall. Pure."""

from collections.abc import Sequence

from appliance.core.cluster import readings
from appliance.core.ids import Role
from appliance.core.plans.plan import Execution
from protos.wsc.v1.management_pb2 import JobEventReport, PodReport


def completed_steps(reports: Sequence[PodReport]) -> int:
    """Return the steps of a session that every system has completed."""
    return min((report.step for report in reports if report.role == Role.CHIEF.value), default=0)


def session_event(session: int, reports: Sequence[PodReport]) -> JobEventReport | None:
    """Return the event that a session's end is; None if no system has completed a step.

    Args:
        session: Its number.
        reports: Of all pods, with the last readings of the session.
    """
    systems = [
        report
        for report in reports
        if report.role == Role.CHIEF.value and readings.SIMULATED_STEP in report.readings
    ]
    num_steps = completed_steps(systems)
    if not num_steps:
        return None

    def longest(reading: str) -> float:
        return max(report.readings.get(reading, 0.0) for report in systems)

    rate = sum(report.readings[readings.SIMULATED_RATE] for report in systems)
    utilization = sum(report.readings[readings.SIMULATED_UTILIZATION] for report in systems)
    is_pipelined = longest(readings.RESIDENT_WEIGHTS) > 0
    return JobEventReport(
        reason="SessionTimed",
        message=(
            f"Session {session}: simulated wafer time {longest(readings.SIMULATED_TOTAL):.6g} s "
            f"for {num_steps} steps on {len(systems)} system(s), "
            f"{Execution.PIPELINED if is_pipelined else Execution.WEIGHT_STREAMING}, "
            f"{rate:.6g} simulated samples/s, "
            f"{utilization / len(systems):.2%} simulated utilisation; wall time "
            f"{longest(readings.WALL_TOTAL):.6g} s."
        ),
    )
