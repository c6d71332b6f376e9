"""What a request says about a session, read."""

import pytest

from appliance.core.cluster.sessions import SessionSpec
from appliance.core.errors import UserError
from appliance.wire.session_messages import session_changes
from protos.csadm import csadm_pb2 as pb


def test_a_mode_of_no_version_is_refused_by_its_number() -> None:
    with pytest.raises(UserError, match="mode 53 names them, or is unknown"):
        session_changes(pb.SessionSpec(update_mode=53), {}, (), before=SessionSpec())
