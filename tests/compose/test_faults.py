"""A few faults of containers, nodes and their network: the fault bench's form for Compose.

`make chaos-compose` draws more.
"""

import pytest

from tests.chaos import bench
from tests.support.containers import Compose, Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NUM_FAULTS = 6
SEED = 16
PATIENCE = 3.0
"""On a machine that other tests share."""


def test_a_few_faults_keep_every_promise(project: Compose, engine: Engine, port: int) -> None:
    findings = bench.run_on_compose(project, engine, port, SEED, NUM_FAULTS, patience=PATIENCE)
    lines, promises_hold = bench.table(findings)
    print("\n".join(lines))
    assert promises_hold
    assert len([finding for finding in findings if not finding.is_late]) >= NUM_FAULTS - 1
