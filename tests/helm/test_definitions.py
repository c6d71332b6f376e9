"""Who makes the definitions of the appliance's kinds."""

import yaml

from tests.support.helm import CHART, Helm


def test_helm_itself_installs_no_definition(helm: Helm) -> None:
    """Helm 4 would apply them at every install, and refuse what the hook has changed."""
    done = helm.run("template", "wafer", str(CHART), "--include-crds")
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert objects
    assert [each for each in objects if each["kind"] == "CustomResourceDefinition"] == []
