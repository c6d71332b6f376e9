from xml.etree import ElementTree

from appliance.wafer.curves import loss_picture, scaling_picture
from appliance.wafer.logs import GPT_J_6B
from appliance.wafer.machine import CS2
from appliance.wafer.planner import estimate

SVG = "{http://www.w3.org/2000/svg}"


def test_the_scaling_picture_marks_every_point_inside_its_frame() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, num_systems=16, batch_size=960)
    root = ElementTree.fromstring(scaling_picture(plan))
    marks = list(root.iter(f"{SVG}circle"))
    assert len(marks) == len(plan.weak_scaling) + len(plan.strong_scaling)
    assert all(0 < float(mark.attrib["cx"]) < 640 for mark in marks)
    assert all(0 < float(mark.attrib["cy"]) < 420 for mark in marks)
    assert "simulated" in "".join(root.itertext())


def test_one_system_alone_can_be_drawn() -> None:
    plan = estimate(GPT_J_6B, machine=CS2, batch_size=60)
    assert len(list(ElementTree.fromstring(scaling_picture(plan)).iter(f"{SVG}circle"))) == 2


def test_the_loss_picture_marks_the_model_on_the_law() -> None:
    root = ElementTree.fromstring(loss_picture(1e22))
    assert len(list(root.iter(f"{SVG}circle"))) == 1
