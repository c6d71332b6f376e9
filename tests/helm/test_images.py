"""By which names images are pulled: of any registry, by tag or by digest."""

from typing import Any

import pytest

from tests.helm.test_chart_pods import pods_of
from tests.support.helm import CHART, Helm, Settings

DIGEST = "sha256:" + "ab" * 32
SITE = "registry.site:5000/mirror"


def images(objects: list[dict[str, Any]]) -> set[str]:
    return {
        container["image"] for _, _, spec in pods_of(objects) for container in spec["containers"]
    }


@pytest.mark.parametrize(
    ("repository", "tag", "expected"),
    [
        (f"{SITE}/wsc", "1.2.3", f"{SITE}/wsc:1.2.3"),
        (f"{SITE}/wsc", DIGEST, f"{SITE}/wsc@{DIGEST}"),
        (f"{SITE}/wsc@{DIGEST}", None, f"{SITE}/wsc@{DIGEST}"),
        (f"{SITE}/wsc:1.2.3@{DIGEST}", None, f"{SITE}/wsc:1.2.3@{DIGEST}"),
        (f"{SITE}/wsc", f"1.2.3@{DIGEST}", f"{SITE}/wsc:1.2.3@{DIGEST}"),
    ],
)
def test_an_image_is_named_by_tag_or_digest_from_any_registry(
    helm: Helm, repository: str, tag: str | None, expected: str
) -> None:
    tags = [] if tag is None else ["--set", f"image.tag={tag},postgresql.image.tag={tag}"]
    names = f"image.repository={repository},postgresql.image.repository={repository}-db"
    objects = helm.template(Settings(), "--set", names, *tags)
    own = {expected, expected.replace("/wsc", "/wsc-db")}
    if repository.endswith(DIGEST):
        own = {repository, f"{repository}-db"}
    assert images(objects) == own


@pytest.mark.parametrize(
    "place",
    [
        "",
        ",jobs.userVolumes[0].claim=a,jobs.userVolumes[0].nfs.server=b,jobs.userVolumes[0].nfs.path=/c",
    ],
    ids=["nowhere", "twice"],
)
def test_a_volume_of_users_is_at_one_place(helm: Helm, place: str) -> None:
    volume = f"jobs.userVolumes[0].name=home,jobs.userVolumes[0].path=/home{place}"
    done = helm.run("template", "wsc", str(CHART), "--set", volume)
    assert done.returncode != 0
    assert "userVolumes" in done.stderr
