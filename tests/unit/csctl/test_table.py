from csctl.output.table import Column, render

_COLUMNS: tuple[Column[tuple[str, str, str]], ...] = (
    Column(header="NAME", cell=lambda row: row[0]),
    Column(header="PHASE", cell=lambda row: row[1]),
    Column(header="NOTE", cell=lambda row: row[2], is_wide=True),
)


def test_columns_are_as_wide_as_their_longest_cell_and_two_blanks_apart() -> None:
    rows = [("a-long-name", "RUNNING", "x"), ("b", "QUEUED", "y")]

    assert render(_COLUMNS, rows).splitlines() == [
        "NAME         PHASE",
        "a-long-name  RUNNING",
        "b            QUEUED",
    ]


def test_wide_columns_show_only_when_asked_for() -> None:
    assert render(_COLUMNS, [("a", "QUEUED", "x")], wide=True).splitlines() == [
        "NAME  PHASE   NOTE",
        "a     QUEUED  x",
    ]


def test_an_empty_list_has_its_header() -> None:
    assert render(_COLUMNS, []) == "NAME  PHASE"


def test_colours_do_not_move_columns() -> None:
    rows = [("a", "RUNNING", "x"), ("b", "ODD", "y")]
    text = render(_COLUMNS, rows, wide=True, coloured=True)

    assert "\x1b[32mRUNNING\x1b[0m  x" in text
    assert text.replace("\x1b[32m", "").replace("\x1b[0m", "") == render(_COLUMNS, rows, wide=True)


def test_control_characters_of_foreign_text_do_not_reach_the_terminal() -> None:
    assert render(_COLUMNS, [("a\x1b[2Jb\nc", "QUEUED", "")]).splitlines()[1] == (
        "a [2Jb c  QUEUED"
    )
