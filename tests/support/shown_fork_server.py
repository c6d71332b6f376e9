"""The fork server of pods, forked, which shows as one that is started which appliance it is of."""

import os

from appliance.cluster.pod_fork_server import main
from appliance.user_code.user_fork_server import show_variables

_SHOWN = "CSCONFIG_PATH"
"""Variable by which tests find the processes of an appliance."""

if __name__ == "__main__":
    if _SHOWN in os.environ:
        show_variables({_SHOWN: os.environ[_SHOWN]})
    raise SystemExit(main())
