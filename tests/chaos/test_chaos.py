"""The short form of the fault bench: nearly every kind of fault once, every promise kept."""

import pytest

from tests.chaos import bench
from tests.chaos.presence import Presence
from tests.support.clock import FakeClock

NUM_FAULTS = 34  # as many as there are kinds; `make chaos` draws a thousand
SEED = 16
PATIENCE = 4.0
"""Other tests run beside this one; `make chaos` holds the promised times as they are."""


@pytest.mark.slow
def test_faults_of_nearly_every_kind_keep_every_promise(tmp_path_factory):
    findings = bench.run_all(tmp_path_factory.mktemp("chaos"), SEED, NUM_FAULTS, patience=PATIENCE)
    lines, promises_hold = bench.table(findings)
    print("\n".join(lines))
    assert promises_hold
    counted = [finding for finding in findings if not finding.is_late]
    assert len(counted) >= NUM_FAULTS * 0.9, "too many faults came after the end of their job"


def test_a_job_hangs_only_while_what_all_jobs_need_is_there():
    clock = FakeClock()
    presence = Presence(clock.monotonic_seconds)
    begun = clock.monotonic_seconds()
    clock.advance(20)
    with presence.absence(), presence.absence():
        clock.advance(20)
        assert presence.seconds(begun) == 0
    assert presence.seconds(begun) == 0
    clock.advance(12)
    assert presence.seconds(begun) == 12
    assert presence.seconds(clock.monotonic_seconds() - 5) == 5
