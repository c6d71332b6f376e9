"""A pod whose session does what its plan bytes say: finish, wait or fail."""

import threading

from appliance.core.errors import UserError
from appliance.pods.shell import pod_main, run_pod


class TrivialSession:
    def __init__(self, context, behaviour):
        self._context, self._behaviour = context, behaviour
        self._woken = threading.Event()

    def start(self, schedule):
        self._schedule = schedule
        return {"steps": self._steps, "other": self._wait}

    def close(self):
        self._woken.set()

    def _steps(self):
        match self._behaviour:
            case "finish":
                self._context.progress.record(
                    step=self._schedule.num_steps, readings={"wsc_test_total": 2.5}
                )
            case "defect":
                raise ZeroDivisionError("division by zero")
            case "user":
                raise UserError("Input 'x' is bad.", hint="Mend it.")
            case "wait":
                self._wait()

    def _wait(self):
        if self._behaviour != "finish":
            self._woken.wait()


class TrivialRole:
    def __init__(self, context):
        self._context = context

    def load(self, request):
        if request.plan == b"refuse":
            raise UserError("This plan is refused.")
        return TrivialSession(self._context, request.plan.decode())

    def add_services(self, server):
        pass

    def close(self):
        pass


if __name__ == "__main__":
    raise SystemExit(pod_main(None, lambda spec: run_pod(spec, TrivialRole), program="trivial_pod"))
