"""The process of an attacker: gives its rights up, tries everything, and prints JSON.

`python -m tests.attack.attacker UID others|served|remote`, with the target on standard input.
Everything is loaded before the rights are given up, since who has none may not be able to read
Python itself. Each attack says in a sentence how it succeeded, or nothing.
"""

import encodings.idna  # noqa: F401 - names are looked up after the rights are given up
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from tests.attack.calls import (
    CALLS,
    pages_make_no_calls,
    whoever_knows_the_authority_is_refused,
)
from tests.attack.machine import MACHINE
from tests.attack.targets import Target
from tests.attack.web import OF_PAGES, WEB

Probe = Callable[[Target], str]
OTHERS: tuple[Probe, ...] = (*WEB, *CALLS, *MACHINE)
"""What other users of the machine try."""
SERVED: tuple[Probe, ...] = (*OF_PAGES, pages_make_no_calls)
"""What pages in the browser of those whom the appliance serves try."""
REMOTE: tuple[Probe, ...] = tuple(
    each
    for each in (*WEB, *SERVED, *CALLS)
    if each is not whoever_knows_the_authority_is_refused  # from elsewhere it is the credential
)
"""What is tried from elsewhere."""

ROOT_CAN = (
    "headers_make_nobody_root",
    "headers_start_nothing",
    "a_job_of_another_is_not_ended",
    "administrators_routes_are_theirs",
    "a_claim_in_metadata_is_none",
    "no_call_ends_a_job_of_another",
    "no_file_is_opened",
    "nothing_is_put_where_the_appliance_looks",
    "no_process_is_looked_into",
)
"""What root does by the same means: the others show that something does not break."""


def try_all(target: Target, probes: Sequence[Probe]) -> dict[str, str]:
    """Return how each attack succeeded; empty where it did not."""
    found = {}
    for probe in probes:
        try:
            found[probe.__name__] = probe(target)
        except Exception:  # noqa: BLE001 - an attack that cannot be made proves nothing
            found[probe.__name__] = f"could not be tried: {traceback.format_exc(limit=-2)}"
    return found


def main() -> int:
    """Run from the command line."""
    uid = int(sys.argv[1])
    target = Target.parse(sys.stdin.read())
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    probes = {"others": OTHERS, "served": SERVED, "remote": REMOTE}[sys.argv[2]]
    sys.stdout.write(json.dumps(try_all(target, probes)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
