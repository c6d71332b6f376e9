"""The settings of a Kubernetes cluster, as a YAML file says them."""

import pytest

from appliance.cluster.kubernetes.options import parse_options
from appliance.core.errors import UserError
from appliance.core.ids import Role

TEXT = """
image: registry/wsc:1
dataVolume: {claim: data, path: /data}
userVolumes:
  - {name: home, path: /home, nfs: {server: nfs.example, path: /export}}
  - {name: sets, path: /sets, claim: sets, readOnly: true}
nodeSelectors: {chief: {accelerator: cs2}}
resources: {weight: {memory: 8Gi}}
placementSeconds: 30
"""


def test_every_kind_of_setting_is_read():
    options = parse_options(TEXT, source="test")
    assert options.data_volume.claim == "data"
    home, sets = options.user_volumes
    assert (home.nfs_server, home.nfs_path, sets.claim, sets.is_read_only) == (
        "nfs.example",
        "/export",
        "sets",
        True,
    )
    assert options.node_selectors == {Role.CHIEF: {"accelerator": "cs2"}}
    assert options.resources == {Role.WEIGHT: {"memory": "8Gi"}}
    assert options.placement_seconds == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "no mapping"),
        ("{", "no YAML"),
        (TEXT + "immage: x", "unknown settings: immage"),
        ("image: a", "not well formed"),
        (TEXT.replace("registry/wsc:1", "''"), "name no image"),
        (TEXT + "defaultUid: 0", "must not be root"),
        (TEXT.replace("claim: sets, ", ""), "needs a claim, or nfs"),
        (TEXT.replace("chief", "chef"), "not well formed"),
    ],
)
def test_what_cannot_be_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_options(text, source="test")
