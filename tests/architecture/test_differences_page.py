"""What docs/differences.md says of defaults is so; its commands are checked with csctl's."""

from pathlib import Path

from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.setting_field import settings_of

TEXT = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
WORDS = " ".join(TEXT.split())


def test_defaults_are_those_of_the_settings() -> None:
    defaults = {each.name: each.default for each in settings_of(ManagementOptions)}
    assert "listed for a year (`--history-days`), its logs for 90 days (`--log-days`)" in WORDS
    assert (defaults["history_days"], defaults["log_days"]) == (365, 90)
    assert "computed in float32" in WORDS
    assert "unless the appliance runs with `--precision exact`" in WORDS
    assert str(defaults["precision"]) == "f32"
    assert "Without `--tls` there is no certificate authority" in WORDS
    assert not defaults["has_tls"]
    assert not defaults["needs_token"]
