"""docs/metrics.md, the alert rules and the Grafana dashboards name metrics that exist.

`METRICS_WRITE=1` writes the generated part of the page anew.
"""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from tests.support.metrics_reference import MARK, families, table

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "helm/wsc-appliance/files/prometheus/rules.yml"
NAME = re.compile(r"\bwsc_\w+")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return families(tmp_path_factory.mktemp("metrics"))


def names_of(rows):
    """Return every name of a sample, the parts of histograms too."""
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind, _, _ in rows for part in parts.get(kind, ("",))}


def test_the_table_is_the_generated_one(rows):
    by_hand = PAGE.read_text().partition(MARK)[0]
    wanted = by_hand + MARK + "\n".join(table(rows))
    if os.environ.get("METRICS_WRITE"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted, "run METRICS_WRITE=1 pytest tests/unit/observability"
    assert len(rows) > 40


def test_every_metric_says_what_it_means(rows):
    assert [name for name, _, _, text in rows if not text.endswith(".")] == []
    assert len({name for name, *_ in rows}) == len(rows)


def test_alert_rules_name_metrics_that_exist_and_the_page_tells_of_each(rows):
    page, known = PAGE.read_text(), names_of(rows)
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        assert set(NAME.findall(rule["expr"])) <= known, rule["alert"]
        assert f"`{rule['alert']}`" in page


def test_grafana_asks_for_metrics_that_exist(rows):
    known = names_of(rows)
    for file in sorted((ROOT / "deploy" / "grafana").glob("*.json")):
        panels = json.loads(file.read_text())["panels"]
        asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
        assert len(asked) > 10
        assert {name for expr in asked for name in NAME.findall(expr)} <= known, file.name


def test_what_the_page_tells_by_hand_exists_too(rows):
    by_hand = PAGE.read_text().partition(MARK)[0]
    assert set(NAME.findall(by_hand)) <= names_of(rows)
