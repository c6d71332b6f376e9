"""`-o custom-columns` and `-o jsonpath`: what each form selects, and what is none."""

import pytest

from appliance.core.errors import UserError
from csctl.output.documents.json_path import parse_path
from csctl.output.documents.templates import CustomColumns, JsonPathTemplate, parse_template

JOBS = {
    "items": [
        {
            "meta": {"name": "a", "labels": {"lr": "1e-3", "x.y/z": "deep"}},
            "status": {"phase": "RUNNING", "systems": ["s0", "s1"], "step": 20},
        },
        {"meta": {"name": "b", "labels": {}}, "status": {"phase": "FAILED", "systems": []}},
    ]
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".items[0].meta.name", ["a"]),
        ("$.items[0].meta.name", ["a"]),
        (".items[-1].meta.name", ["b"]),
        (".items[7].meta.name", []),
        (".items[*].meta.name", ["a", "b"]),
        (".items[0:1].meta.name", ["a"]),
        (".items[:].meta.name", ["a", "b"]),
        (".items[::2].meta.name", ["a"]),
        (".items[0,1].meta.name", ["a", "b"]),
        (".items[*]['meta','status'].name", ["a", "b"]),
        (".items[0].status.systems[*]", ["s0", "s1"]),
        (".items[0].meta.labels.*", ["1e-3", "deep"]),
        (r".items[0].meta.labels.x\.y/z", ["deep"]),
        (".items[0].meta.labels['x.y/z']", ["deep"]),
        ('.items[0].meta.labels["lr"]', ["1e-3"]),
        (".items[0].nothing.at.all", []),
        (".items.meta", []),
        (".items[0].meta.name[0]", []),
        ("..phase", ["RUNNING", "FAILED"]),
        ('.items[?(@.status.phase=="FAILED")].meta.name', ["b"]),
        (".items[?(@.status.phase != 'FAILED')].meta.name", ["a"]),
        (".items[?(@.status.step>=20)].meta.name", ["a"]),
        (".items[?(@.status.step<20)].meta.name", []),
        (".items[?(@.status.step)].meta.name", ["a"]),
        (".items[?(@.status.phase>3)].meta.name", []),
    ],
)
def test_a_path_selects_what_kubectl_selects(path, found):
    assert parse_path(path).select(JOBS) == found


@pytest.mark.parametrize(
    "path",
    [
        "",
        "items",
        ".items[",
        ".items[]",
        ".items[x]",
        ".items[0",
        ".items[?(@.a=1)]",
        ".items[?(@.a==)]",
        ".items[?(@.a==1]",
        ".items[::0]",
        ".a b",
        ".a..",
        ".a.",
        ".a[0,]",
        ".a['b]",
        ".a}",
    ],
)
def test_what_is_no_path_is_refused_where_it_goes_wrong(path):
    with pytest.raises(UserError, match="not understood at") as caught:
        parse_path(path)
    assert ".items[*]" in caught.value.hint


def test_columns_of_one_s_own_are_a_table():
    columns = parse_template(
        "custom-columns=NAME:.meta.name,PHASE:{.status.phase},ON:status.systems[0,1],STEP:.status.step"
    )
    assert isinstance(columns, CustomColumns)
    assert columns.of(JOBS["items"]).splitlines() == [
        "NAME  PHASE    ON      STEP",
        "a     RUNNING  s0,s1   20",
        "b     FAILED   <none>  <none>",
    ]
    assert columns.of([]) == "NAME  PHASE  ON  STEP"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].meta.name}", "a b"),
        ("{.items[0].status.systems}", '["s0", "s1"]'),
        ("{.items[0].status.step}", "20"),
        ("{.nothing}", ""),
        ("first: {.items[0].meta.name}!", "first: a!"),
        (
            r'{range .items[*]}{.meta.name}{"\t"}{.status.phase}{"\n"}{end}',
            "a\tRUNNING\nb\tFAILED\n",
        ),
        ("{range .items[*]}{range .status.systems[*]}<{@}>{end};{end}", "<s0><s1>;;"),
        ("{range .items[*]}{ .meta.name }{' '}{end}", "a b "),
        ("{$.items[1].meta.name}", "b"),
        ("{.items[1].meta}", '{"labels": {}, "name": "b"}'),
    ],
)
def test_a_template_is_a_text_with_what_its_paths_select(template, text):
    made = parse_template(f"jsonpath={template}")
    assert isinstance(made, JsonPathTemplate)
    assert made.of(JOBS) == text


@pytest.mark.parametrize(
    "text",
    [
        "custom-columns=",
        "custom-columns",
        "custom-columns=NAME",
        "custom-columns=NAME:",
        "custom-columns=:.meta.name",
        "custom-columns=NAME:.meta.name,",
        "custom-columns=NAME:.meta[",
        "jsonpath=",
        "jsonpath",
        "jsonpath=.meta.name",
        "jsonpath={",
        "jsonpath={}",
        "jsonpath={.meta.name",
        "jsonpath={.meta.name}}{",
        "jsonpath={range .items[*]}{.meta.name}",
        "jsonpath={.meta.name}{end}",
        "jsonpath={range}",
        "jsonpath={name}",
    ],
)
def test_what_is_no_template_is_refused(text):
    with pytest.raises(UserError):
        parse_template(text)
