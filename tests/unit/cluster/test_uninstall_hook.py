"""What the chart does before it is uninstalled, where others have removed things before it."""

import pytest

from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.hooks.uninstall import clear, end_jobs, stop_management
from appliance.cluster.kubernetes.object_kinds import LEASE, WSCSYSTEM, WSJOB
from appliance.core.clock import SystemClock


class Bare:
    """An API server that has nothing of the release, nor the definitions of our kinds."""

    def __init__(self, status=404):
        self.deleted = []
        self._status = status

    def list(self, kind, selector=""):
        if kind in (WSJOB, WSCSYSTEM):
            raise ApiError("the server could not find the requested resource", status=self._status)
        return (), "1"

    def find(self, kind, name):
        return None

    def patch(self, kind, name, changes, *, subresource=""):
        return None

    def delete(self, kind, name):
        self.deleted.append((kind, name))
        return False


def test_a_release_without_definitions_deployment_or_lease_can_be_uninstalled():
    api, clock = Bare(), SystemClock()
    assert end_jobs([api, api], clock, patience_seconds=0) == 0
    assert stop_management(api, clock, deployment="a", lease="a", patience_seconds=0)
    clear([api, api], lease="a")
    assert api.deleted == [(LEASE, "a")]


def test_a_server_that_does_not_say_which_jobs_there_are_is_not_taken_for_an_empty_one():
    with pytest.raises(ApiError):
        end_jobs([Bare(status=403)], SystemClock(), patience_seconds=0)
    with pytest.raises(ApiError):
        clear([Bare(status=403)], lease="a")
