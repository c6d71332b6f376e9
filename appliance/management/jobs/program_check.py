"""Whether there is a program that a detached run could start, where runs start on this machine."""

import os

from appliance.core.cluster.drivers import DEFAULT_PATH, DriverSpec
from appliance.core.errors import UserError


def check_program(spec: DriverSpec) -> None:
    """Raise `UserError` if a run's program is nowhere that it would be looked for.

    What this process may not look at may be there. Whether the user may execute it is found out
    when the run starts, with the user's rights.
    """
    path = spec.environment.get("PATH", "") or DEFAULT_PATH
    places = spec.programs(path)
    if any(_may_exist(os.path.join(spec.work_dir, place)) for place in places):
        return
    where = f" in {spec.work_dir}" if len(places) == 1 else f" on PATH {path}"
    raise UserError(
        f"There is no program {spec.argv[0]!r}{where} on the appliance's machine.",
        hint="Name one that is there, as in `csctl submit -- python train.py`.",
    )


def _may_exist(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
