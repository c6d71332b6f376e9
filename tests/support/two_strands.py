"""A chief pod whose threads divide the samples in two, however little there is to compute."""

import sys
from functools import partial

from appliance.pods import shell
from workers.csx.role import CsxRole

TWO_STRANDS = {"threads": "2", "chief_module": "tests.support.two_strands"}
"""What makes an engine of such systems."""


def run_pod(spec):
    return shell.run_pod(spec, partial(CsxRole, count_strands=lambda *_, **__: 2))


if __name__ == "__main__":
    sys.exit(shell.pod_main(None, run_pod, program="two_strands"))
