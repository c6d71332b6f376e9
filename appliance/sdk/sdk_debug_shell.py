"""`sdk_debug_shell compile`: the name by which many public scripts call `cslc`."""

import sys
from collections.abc import Sequence

from appliance.sdk import cslc

_OTHERS = (
    "the only command here is `compile`, which is `cslc`; record a trace with "
    "WSC_FABRIC_TRACE=run.trace and look at it with `cs_trace`, whose `log` has what "
    "`wavelet-trace` is used for"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; as `cslc`, and 2 for another command."""
    command, *arguments = [*(sys.argv[1:] if argv is None else argv), ""]
    if command == "compile":
        return cslc.main(arguments[:-1])
    text = f"there is no command {command!r}; {_OTHERS}" if command else _OTHERS
    sys.stderr.write(f"sdk_debug_shell: error: {text}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
