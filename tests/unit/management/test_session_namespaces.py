"""Which namespace the jobs of a session are in."""

import pytest

from appliance.core.errors import UserError
from appliance.management.kubernetes.session_namespaces import SessionNamespaces

NAMESPACES = SessionNamespaces(own="wafer", mapped={"research": "team-research"})


def test_a_session_that_is_not_mapped_is_in_management_s_namespace():
    assert NAMESPACES.of_session("research") == "team-research"
    assert NAMESPACES.of_session("job-operator") == "wafer"


def test_a_namespace_of_one_session_says_which():
    assert NAMESPACES.session_in("team-research") == "research"
    assert NAMESPACES.session_in("wafer") == ""
    assert NAMESPACES.session_in("elsewhere") == ""


@pytest.mark.parametrize(
    ("session", "namespace"), [("research", "wafer"), ("job-operator", "team-research")]
)
def test_a_wsjob_of_another_namespace_s_session_is_refused(session, namespace):
    NAMESPACES.require(session, NAMESPACES.of_session(session))
    with pytest.raises(UserError, match="does not hold jobs of session"):
        NAMESPACES.require(session, namespace)
