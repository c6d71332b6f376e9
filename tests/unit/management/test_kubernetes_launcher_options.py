"""What `appliance up --launcher kubernetes` demands."""

import pytest

from appliance.core.errors import UserError
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import NodeOptions, RunOptions

SETTINGS = "image: a\ndataVolume: {claim: data, path: /data}\n"


def options(tmp_path, **changes):
    streams = changes.pop("streams", "network")
    nodes = {"launcher": "kubernetes", "inner_host": "here", "kubernetes": SETTINGS, **changes}
    return ManagementOptions(
        data_dir=tmp_path,
        runtime_root=tmp_path,
        runs=RunOptions(streams=streams),
        nodes=NodeOptions(**nodes),
    )


def test_settings_an_address_and_network_streams_are_enough(tmp_path):
    assert options(tmp_path).nodes.kubernetes == SETTINGS


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
    changes, message = dict(story[0]), story[1]
    with pytest.raises(UserError, match=message):
        options(tmp_path, **changes)
