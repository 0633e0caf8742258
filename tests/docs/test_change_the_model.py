import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "change-the-model.md").read_text(encoding="utf-8")


def test_the_files_exist():
    named = re.findall(r"`(\w[\w/.]*(?:/\w+\.py|/))`", PAGE)
    assert len(named) > 25
    homes = ROOT / "src" / "cascade_srn", ROOT
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


def test_the_symbols_are_in_the_files_of_their_row():
    n_symbols = 0
    for row in re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE):
        files = [ROOT / "src" / "cascade_srn" / name for name in re.findall(r"`([\w/.]+\.py)`", row[0])]
        text = "".join(path.read_text(encoding="utf-8") for path in files)
        symbols = re.findall(r"`(\w+)`", row[1])
        assert [symbol for symbol in symbols if symbol not in text] == []
        n_symbols += len(symbols)
    assert n_symbols > 10
