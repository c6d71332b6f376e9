"""The body of csctl's patch is a change of labels, or is refused with a sentence."""

import pytest

from appliance.core.errors import UserError
from appliance.management.rpc.csctl_servicer import _label_changes
from protos.csctl.api_pb2 import PatchRequest


def test_labels_are_set_and_removed():
    request = PatchRequest(body=b'{"meta": {"labels": {"a": "b", "old": null, "n": 1}}}')
    assert _label_changes(request) == {"a": "b", "old": None, "n": "1"}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"meta":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"meta": {"labels": [' + b"9" * 5000 + b"]}}",
        b'{"meta": {"labels": []}}',
        b'{"meta": []}',
        b'{"meta": {"labels": NaN}}',
        b"\xff\xfe",
        b"",
    ],
    ids=["deep lists", "deep objects", "digits", "a list", "no object", "NaN", "no text", "empty"],
)
def test_what_is_no_change_is_refused_with_a_sentence(body):
    with pytest.raises(UserError, match="not understood"):
        _label_changes(PatchRequest(body=body))
