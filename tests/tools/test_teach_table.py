import json
import sys

from tools import teach_table


def test_the_page_has_the_stored_results():
    stored = json.loads(teach_table.STORED.read_text(encoding="utf-8"))
    assert teach_table.table(stored) in teach_table.PAGE.read_text(encoding="utf-8")
    picture = teach_table.PICTURE.read_text(encoding="utf-8")
    assert all(f"{row['corpus']}, {row['size']} sentences" in picture for row in stored["rows"])


def test_results_are_copied_and_the_table_replaced(tmp_path, monkeypatch):
    stored = json.loads(teach_table.STORED.read_text(encoding="utf-8"))
    rows = [row for row in stored["rows"] if row["labels"] == "gold"]
    (tmp_path / "new.json").write_text(json.dumps(stored | {"rows": rows}), encoding="utf-8")
    (tmp_path / "page.md").write_text(teach_table.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    for name, file in (("STORED", "a/stored.json"), ("PAGE", "page.md")):
        monkeypatch.setattr(teach_table, name, tmp_path / file)
    monkeypatch.setattr(teach_table, "plot_teach", lambda result, path: path)
    monkeypatch.setattr(sys, "argv", ["teach_table.py", str(tmp_path / "new.json")])
    teach_table.main()
    assert json.loads((tmp_path / "a" / "stored.json").read_text(encoding="utf-8"))["rows"] == rows
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert teach_table.table({"rows": rows}) in page
    assert "| 90/85+70/60 |" not in page
