"""`python -m workers.driver --spec FILE`: a driver pod.

Options: `driver_path` (the run's `DriverSpec` as JSON), `user_uid`, `user_gid` and `user_name`
(whom to run the script as; empty for ourselves), and `token`, by which the jobs of the script are
known as the driver's.
"""

import sys
from pathlib import Path

from appliance.core.drivers import DriverSpec
from appliance.core.pods import PodSpec
from appliance.pods import shell
from workers.driver.script import Script, ScriptUser
from workers.driver.supervisor import ManagementLink, supervise


def run_pod(spec: PodSpec) -> int:
    """Run the script until it has ended for good; return its exit code."""
    driver = DriverSpec.from_json(Path(spec.options["driver_path"]).read_text())
    options = spec.options
    user = ScriptUser.of(
        options.get("user_uid", ""),
        options.get("user_gid", ""),
        options.get("user_name", ""),
    )
    script = Script(spec, driver, user, token=spec.options.get("token", ""))
    with ManagementLink(spec.management_address, spec.job) as management:
        return supervise(script, management.ended)


def main() -> int:
    """Run from the command line."""
    return shell.pod_main(None, run_pod, program="python -m workers.driver")


if __name__ == "__main__":
    sys.exit(main())
