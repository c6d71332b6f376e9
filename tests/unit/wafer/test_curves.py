from xml.etree import ElementTree

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.curves import loss_picture, scaling_picture
from appliance.wafer.planner.planner import estimate
from benchmarks.wafer_model.logs import GPT_J_6B


def marks(picture: str) -> list[ElementTree.Element]:
    """Return the marks of a picture, without those of its legend."""
    root = ElementTree.fromstring(picture)
    legend = root.find(f"{SVG}g[@class='legend']")
    assert legend is not None
    inside = set(legend.iter(f"{SVG}circle"))
    return [mark for mark in root.iter(f"{SVG}circle") if mark not in inside]


SVG = "{http://www.w3.org/2000/svg}"


def test_the_scaling_picture_marks_every_point_inside_its_frame() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, num_systems=16, batch_size=960)
    picture = scaling_picture(plan)
    found = marks(picture)
    assert len(found) == len(plan.weak_scaling) + len(plan.strong_scaling)
    assert all(0 < float(mark.attrib["cx"]) < 640 for mark in found)
    assert all(0 < float(mark.attrib["cy"]) < 420 for mark in found)
    text = "".join(ElementTree.fromstring(picture).itertext())
    assert "weight-streaming: simulated samples per second" in text
    assert "batch 60 per system" in text


def test_every_number_of_systems_has_its_label_unless_labels_would_collide() -> None:
    def labels(num_systems: int) -> set[str | None]:
        plan = estimate(GPT_J_6B, machine=CS2, num_systems=num_systems, batch_size=19_200)
        root = ElementTree.fromstring(scaling_picture(plan))
        return {text.text for text in root.iter(f"{SVG}text")}

    assert {"1", "2", "4", "8", "16", "32", "64", "128", "192"} <= labels(192)
    assert "128" not in labels(130)
    assert "130" in labels(130)


def test_one_system_alone_can_be_drawn() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, batch_size=60)
    assert len(marks(scaling_picture(plan))) == 2


def test_the_loss_picture_marks_the_model_on_the_law() -> None:
    assert len(marks(loss_picture(1e22))) == 1
