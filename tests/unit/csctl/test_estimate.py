import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from appliance.core.plans.plan_text import print_plan
from csctl.command_line.running import main
from tests.support.plans import two_layer_plan

GPT = ("estimate", "--layers", "12", "--hidden", "768", "--sequence", "1024")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*GPT, *arguments]) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["estimate", *arguments]) == 2
    return capsys.readouterr().err


def test_a_table_has_a_row_for_each_number_of_systems(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "--systems", "4,1,16", "--batch", "64")
    assert "All times are simulated." in text
    assert "Expected loss" in text
    assert "muP" in text
    lines = text.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("SYSTEMS"))
    rows = [line.split() for line in lines[header + 1 : header + 4]]
    assert [row[0] for row in rows] == ["1", "4", "16"]
    assert [row[1] for row in rows] == ["64"] * 3


def test_numbers_have_units_and_three_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--layers", "24", "--hidden", "2048"]) == 0
    text = capsys.readouterr().out
    assert "transformer 1.32 B on CS-2, weight-streaming: 1.32 B parameters, 26.3 B tokens" in text
    header, row = (line for line in text.splitlines() if line.startswith(("SYSTEMS", "1 ")))
    cells = dict(zip(re.split(r"  +", header), re.split(r"  +", row), strict=True))
    for column, unit in (("STEP", "s"), ("TIME", "h"), ("ENERGY", "kWh"), ("TOKENS/S", "k")):
        assert cells[column].split()[-1] == unit, cells
    assert not re.search(r"\d{4}", " ".join(cells.values())), cells


def test_json_and_yaml_say_the_same_and_call_times_simulated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(answer(capsys, "--machine", "cs3", "-o", "json"))
    assert yaml.safe_load(answer(capsys, "--machine", "cs3", "-o", "yaml")) == document
    (item,) = document["items"]
    assert item["machine"] == "CS-3"
    assert item["simulated_step_seconds"] > 0
    assert item["tokens"] == pytest.approx(20 * item["num_parameters"])


def test_pictures_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scaling, loss = tmp_path / "scaling.svg", tmp_path / "loss.svg"
    answer(capsys, "--systems", "8", "--plot", str(scaling), "--loss-plot", str(loss))
    for path in (scaling, loss):
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_a_compiled_program_is_estimated_with_its_own_batch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = two_layer_plan(batch_size=6)
    (tmp_path / "plan.txt").write_text(print_plan(plan))
    for path in (tmp_path, tmp_path / "plan.txt"):
        assert main(["estimate", "--program", str(path), "-o", "json"]) == 0
        (item,) = json.loads(capsys.readouterr().out)["items"]
        assert item["batch_size"] == 6
        assert item["model"] == plan.key
        assert item["expected_loss"] is None


def test_a_machine_of_ones_own_is_read_from_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "small.yaml"
    table.write_text("base: cs3\nname: small\nclock_hertz: 437.5e6\n")
    (slow,) = json.loads(answer(capsys, "--machine", str(table), "-o", "json"))["items"]
    (usual,) = json.loads(answer(capsys, "--machine", "cs3", "-o", "json"))["items"]
    assert slow["machine"] == "small"
    assert slow["simulated_step_seconds"] > 1.5 * usual["simulated_step_seconds"]


def test_what_cannot_be_estimated_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "--layers and --hidden" in refusal(capsys, "--layers", "2")
    assert "line 1, column 1" in refusal(capsys, "--program", __file__)
    broken = tmp_path / "plan.txt"
    broken.write_text('plan {"format": 1}')
    assert "no compiled program" in refusal(capsys, "--program", str(broken))
    assert "cannot be read" in refusal(capsys, "--program", str(tmp_path / "gone"))
    assert "CS-2, CS-3" in refusal(capsys, *GPT[1:], "--machine", "cs9")
    assert "not understood" in refusal(capsys, *GPT[1:], "--systems", "1-4")
    assert "largest tensor" in refusal(capsys, "--layers", "1", "--hidden", "999424")


def test_a_program_of_a_validate_only_run_is_estimated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = Path(__file__).parents[1] / "compiler" / "programs" / "gpt.mlir"
    assert main(["estimate", "--program", str(program), "-o", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["model"] == "gpt.mlir"
    assert item["batch_size"] == 4
    assert item["num_parameters"] > 10_000
    assert item["simulated_step_seconds"] > 0


def test_a_network_is_estimated_with_all_of_it_on_the_wafer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (pipelined,) = json.loads(answer(capsys, "--execution", "pipelined", "-o", "json"))["items"]
    assert pipelined["execution"] == "pipelined"
    assert pipelined["memory"]["weight_bytes"] == pytest.approx(18 * pipelined["num_parameters"])
    (left,) = json.loads(answer(capsys, "--execution", "auto", "-o", "json"))["items"]
    assert left["execution"] == "pipelined"
    large = ("--layers", "40", "--hidden", "5120", "--execution")
    assert main(["estimate", *large, "auto", "-o", "json"]) == 0
    (streamed,) = json.loads(capsys.readouterr().out)["items"]
    assert streamed["execution"] == "weight-streaming"
    assert "the most are the weights of" in refusal(capsys, *large, "pipelined")
