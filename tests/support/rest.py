"""REST against a running appliance."""

from contextlib import contextmanager

import httpx

from tests.support.appliance_process import ApplianceProcess, run_command


@contextmanager
def rest_client(appliance: ApplianceProcess, token: str = "", **options):
    """Yield a client of the appliance's REST interface."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    root = f"{appliance.state.rest_url}/api/v1/"
    with httpx.Client(base_url=root, headers=headers, timeout=120, **options) as client:
        yield client


def mint(appliance: ApplianceProcess, name: str, *arguments: str) -> str:
    """Mint a token as whoever runs the appliance does."""
    answer = run_command("token", "create", name, *arguments, "--data-dir", str(appliance.data_dir))
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()
