"""The REST interface is a stored document; changing it is a deliberate edit.

`OPENAPI_WRITE=1 pytest tests/architecture/test_openapi.py` writes it anew.
"""

import json
import os
from pathlib import Path

from tests.support.rest import described_app

STORED = Path(__file__).parent / "openapi.json"


def described(tmp_path: Path) -> dict:
    return described_app(tmp_path).openapi()


def test_the_rest_interface_is_the_stored_one(tmp_path):
    document = described(tmp_path)
    if os.environ.get("OPENAPI_WRITE"):
        STORED.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    stored = json.loads(STORED.read_text())
    assert document == stored, "run OPENAPI_WRITE=1 pytest tests/architecture/test_openapi.py"


def test_every_operation_says_what_it_does_and_how_it_refuses(tmp_path):
    document = described(tmp_path)
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            if path.startswith("/api/"):
                refusal = operation["responses"]["422"]["content"]
                assert list(refusal) == ["application/problem+json"], (method, path)
