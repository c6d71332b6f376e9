"""What an appliance refuses to be told, before anything is started."""

from pathlib import Path

import pytest

from appliance.core.dataclass_json import from_json, to_json
from appliance.core.errors import InternalError, UserError
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.setting_field import from_settings, settings_of


def made(**changes) -> ManagementOptions:
    values = {each.name: each.default for each in settings_of(ManagementOptions)}
    assert set(changes) <= set(values)
    return from_settings(
        ManagementOptions,
        {**values, **changes},
        data_dir=Path("/d"),
        runtime_root=Path("/r"),
    )


def test_options_come_back_from_what_is_handed_to_another_process() -> None:
    options = made(num_systems=3, pace=2, has_tls=True, machine='{"base": "cs3"}')
    assert from_json(ManagementOptions, to_json(options)) == options
    assert options != made()
    with pytest.raises(InternalError, match="queue has no field 'lease'"):
        from_json(ManagementOptions, to_json(options).replace("lease_seconds", "lease"))


def test_no_two_settings_have_one_name() -> None:
    names = [each.name for each in settings_of(ManagementOptions)]
    assert len(names) == len(set(names)) > 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 80_000}, "--port 80000 is no port; ports are 0 to 65,535"),
        ({"rest_port": -1}, "--rest-port -1 is no port"),
        ({"node_port": 65_536}, "--node-port 65536 is no port"),
        ({"csx_device": "gpu"}, "cannot compute on 'gpu'; it is one of cpu, cuda"),
        ({"streams": "air"}, "no streams of kind 'air'"),
        ({"precision": "f8"}, "no precision 'f8'"),
        ({"needs_token": True, "port": 9000}, "Tokens are asked for at localhost port 9000"),
        ({"max_drivers": 0}, "may have 0 detached runs"),
        ({"oidc": "/etc/oidc.yaml"}, "needs --tokens: without tokens nobody logs in"),
        ({"trusted_proxies": "10.0.0.0/8"}, "behind the proxies of 10.0.0.0/8 would be nobody"),
        ({"trusted_proxies": "10.0.0.1/8"}, "'10.0.0.1/8' is no list of networks"),
        ({"num_systems": 0}, "0 systems cannot run any job"),
    ],
)
def test_an_option_that_makes_no_sense_is_named_with_what_would(options, message) -> None:
    with pytest.raises(UserError, match=message):
        made(**options)
