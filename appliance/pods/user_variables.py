"""Variables of a pod's container that the programs of its user have, too."""

import os

from appliance.core.pods.pod_options import PodOptions


def user_variables(options: PodOptions) -> dict[str, str]:
    """Return the variables that an administrator gives the user's programs in this pod."""
    names = (name for name in options.user_variables if name in os.environ)
    return {name: os.environ[name] for name in names}
