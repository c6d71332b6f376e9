"""What an appliance refuses to be told, before anything is started."""

from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.management.options import ManagementOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"csx_device": "gpu"}, "cannot compute on 'gpu'; it is one of cpu, cuda"),
        ({"streams": "air"}, "no streams of kind 'air'"),
        ({"precision": "f8"}, "no precision 'f8'"),
        ({"needs_token": True, "port": 9000}, "Tokens are asked for at localhost port 9000"),
        ({"num_systems": 0}, "0 systems cannot run any job"),
    ],
)
def test_an_option_that_makes_no_sense_is_named_with_what_would(options, message) -> None:
    with pytest.raises(UserError, match=message):
        ManagementOptions(data_dir=Path("/d"), runtime_root=Path("/r"), **options)
