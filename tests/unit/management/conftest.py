"""A clock that stands still, and the state of an appliance on it."""

import pytest

from tests.support.clock import FakeClock
from tests.support.management import opened_state


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def state(tmp_path, clock):
    with opened_state(tmp_path, clock) as opened:
        opened.sessions.ensure()
        yield opened
