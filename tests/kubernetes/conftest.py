"""One API server for all tests here; a namespace and an account with the chart's role for each."""

import contextlib

import pytest

from tests.support.kube_server import (
    await_no_rules,
    chart_rules,
    find_tool,
    install_crds,
    make_account,
    new_namespace,
    reason_to_skip,
    running_kube_server,
)
from tests.support.start_costs import counted


def pytest_collection_modifyitems(items):
    reason = reason_to_skip()
    if not reason and not all(map(find_tool, ("helm", "helm4", "kubectl"))):
        reason = "helm, helm4 or kubectl is missing: deploy/setup.sh kube-tools"
    here = [item for item in items if "tests/kubernetes/" in str(item.path)]
    for item in here:
        item.add_marker(pytest.mark.kubernetes)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def kube(tmp_path_factory):
    """A real API server with our kinds; it takes processor time from other tests even when idle."""
    with contextlib.ExitStack() as stack:
        with counted("Kubernetes API servers"):
            server = stack.enter_context(running_kube_server(tmp_path_factory.mktemp("kube")))
        yield server


@pytest.fixture(scope="module", autouse=True)
def definitions(kube):
    """Take the rules away that a chart has put into the definitions of this server before."""
    admin = kube.admin()
    install_crds(admin)
    await_no_rules(admin)


@pytest.fixture(scope="session")
def rules():
    """The rules of the chart's role."""
    return chart_rules()


@pytest.fixture
def account(kube, rules):
    """A service account with the chart's role, in a namespace of its own."""
    admin = kube.admin()
    namespace = new_namespace(admin)
    yield make_account(kube.admin(namespace), namespace, rules)
    admin._call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def api(kube, account):
    """The cluster as the appliance sees it."""
    server = kube.as_account(account.namespace, account.token)
    yield server
    server.close()
