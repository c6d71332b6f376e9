"""`python -m workers.driver --spec FILE`: a driver pod.

Options: `DriverPodOptions`.
"""

import sys

from appliance.core.clock import SystemClock
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods import shell
from appliance.pods.job_user import JobUser
from appliance.pods.peers import Peers
from workers.driver.script import Script
from workers.driver.supervisor import ManagementLink, supervise


def run_pod(spec: PodSpec) -> int:
    """Run the script until it has ended for good; return its exit code."""
    options = spec.options_of(DriverPodOptions)
    driver = DriverSpec.from_json(options.driver)
    user = JobUser.of(options.user_uid, options.user_gid, options.user_name)
    script = Script(spec, driver, user, token=options.token)
    peers = Peers(spec, SystemClock())
    try:
        with ManagementLink(peers.management(), spec) as management:
            return supervise(script, management.ended, restart_count=management.started())
    finally:
        peers.close()


def main() -> int:
    """Run from the command line."""
    return shell.pod_main(None, run_pod, program="python -m workers.driver")


if __name__ == "__main__":
    sys.exit(main())
