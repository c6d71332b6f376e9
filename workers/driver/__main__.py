"""`python -m workers.driver --spec FILE`: a driver pod.

Options: `driver` (the run's `DriverSpec` as JSON), `user_uid`, `user_gid` and `user_name`
(whom to run the script as; empty for ourselves), and `token`, by which the jobs of the script are
known as the driver's; `client_config`, the client's configuration file for scripts without one.
"""

import sys

from appliance.core.clock import SystemClock
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.pods import PodSpec
from appliance.pods import shell
from appliance.pods.job_user import JobUser
from appliance.pods.peers import Peers
from workers.driver.script import Script
from workers.driver.supervisor import ManagementLink, supervise


def run_pod(spec: PodSpec) -> int:
    """Run the script until it has ended for good; return its exit code."""
    driver = DriverSpec.from_json(spec.options["driver"])
    options = spec.options
    uid, gid = (options.get(name, "") for name in ("user_uid", "user_gid"))
    user = JobUser.of(
        int(uid) if uid else None, int(gid) if gid else None, options.get("user_name", "")
    )
    script = Script(spec, driver, user, token=spec.options.get("token", ""))
    peers = Peers(spec, SystemClock())
    try:
        with ManagementLink(peers.management(), spec.job) as management:
            return supervise(script, management.ended, restart_count=management.started())
    finally:
        peers.close()


def main() -> int:
    """Run from the command line."""
    return shell.pod_main(None, run_pod, program="python -m workers.driver")


if __name__ == "__main__":
    sys.exit(main())
