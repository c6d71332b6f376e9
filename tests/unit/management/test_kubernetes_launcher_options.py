"""What `appliance up --launcher kubernetes` demands."""

import pytest

from appliance.core.errors import UserError
from appliance.management.options import ManagementOptions

SETTINGS = "image: a\ndataVolume: {claim: data, path: /data}\n"


def options(tmp_path, **changes):
    fields = {"launcher": "kubernetes", "inner_host": "here", "streams": "network"}
    return ManagementOptions(
        data_dir=tmp_path,
        runtime_root=tmp_path,
        **{**fields, "kubernetes": SETTINGS, **changes},
    )


def test_settings_an_address_and_network_streams_are_enough(tmp_path):
    assert options(tmp_path).kubernetes == SETTINGS


@pytest.mark.parametrize(
    "story",
    [
        ({"kubernetes": ""}, "Give --launcher kubernetes and --kubernetes FILE together"),
        ({"launcher": "processes"}, "Give --launcher kubernetes and --kubernetes FILE together"),
        ({"inner_host": ""}, "no address is given"),
        ({"streams": "ring"}, "Choose one of network, network-tls"),
        ({"kubernetes": "image: a"}, "not well formed|dataVolume"),
        ({"launcher": "slurm"}, "There is no launcher 'slurm'"),
    ],
)
def test_what_is_missing_is_said(tmp_path, story):
    changes, message = story
    with pytest.raises(UserError, match=message):
        options(tmp_path, **changes)
