"""`csl_lsp` as an editor runs it."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.csl_editor import at
from tests.support.language_client import LanguageClient, position

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "csl"


@pytest.mark.skipif(find_spec("pygls") is None, reason="the extra 'editors' is not installed")
def test_an_editor_is_served_from_the_first_letter_to_the_last(tmp_path: Path) -> None:
    """The example's own script tells how it is compiled: nothing is set."""
    for name in ("layout.csl", "pe.csl", "run.sh"):
        shutil.copy(EXAMPLE / name, tmp_path)
    pe = tmp_path / "pe.csl"
    text = "// \U0001f9ea not of the basic plane\n" + pe.read_text()
    text = text.replace("stamp(3);", '/* */ stamp(3); // "\U0001f9ea"').replace("/* */ ", "")
    pe.write_text(text)
    with LanguageClient(tmp_path) as client:
        document = client.open("pe.csl")
        told = [client.next_notification("textDocument/publishDiagnostics") for _ in range(2)]
        assert [each["diagnostics"] for each in told] == [[], []]

        def ask(method: str, mark: str, **more: object) -> object:
            place = position(text, at(text, mark))
            return client.ask(
                f"textDocument/{method}", textDocument=document, position=place, **more
            )

        hover = ask("hover", "@^fmacs")
        assert "64 elements take" in hover["contents"]["value"]
        found = ask("definition", "^stamp(3)")
        assert found["uri"] == pe.as_uri()
        assert found["range"]["start"] == position(text, at(text, "fn ^stamp"))
        labels = {each["label"] for each in ask("completion", "time.^enable_tsc")["items"]}
        assert {"enable_tsc", "get_timestamp"} <= labels
        assert (
            ask("signatureHelp", "stamp(^3")["signatures"][0]["label"]
            == "fn stamp(place: u16) void"
        )
        edits = ask("rename", "fn ^stamp", newName="mark")["changes"][pe.as_uri()]
        assert len(edits) == 3
        assert "exported" in ask("rename", "fn ^axpy", newName="run")["message"]
        symbols = client.ask("textDocument/documentSymbol", textDocument=document)
        assert "axpy" in [each["name"] for each in symbols]
        colors = client.ask("textDocument/semanticTokens/full", textDocument=document)
        assert len(colors["data"]) % 5 == 0

        client.change("pe.csl", text.replace("stamp(3);", "stamp(true);"), 2)
        wrong = client.next_notification("textDocument/publishDiagnostics")
        while wrong["uri"] != pe.as_uri():
            wrong = client.next_notification("textDocument/publishDiagnostics")
        (diagnostic,) = wrong["diagnostics"]
        assert diagnostic["range"]["start"] == position(text, at(text, "stamp(^3"))
        assert "expected type 'u16', got: 'bool'" in diagnostic["message"]
        assert diagnostic["relatedInformation"][0]["location"]["uri"].endswith("layout.csl")
