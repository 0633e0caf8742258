import json

from tools import teach_table


def stored():
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(teach_table.STORED.glob("*.json"))]


def test_the_page_has_the_stored_results():
    rows = [row for result in stored() for row in result["rows"]]
    assert teach_table.table(rows) in teach_table.PAGE.read_text(encoding="utf-8")
    picture = teach_table.PICTURE.read_text(encoding="utf-8")
    assert all(f"{row['corpus']}, {row['trainings'][0]['sentences']} sentences" in picture for row in rows)


def test_the_table_is_replaced(tmp_path, monkeypatch):
    rows = [row for row in stored()[0]["rows"] if row["labels"] == "gold"]
    (tmp_path / "new.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    (tmp_path / "page.md").write_text(teach_table.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(teach_table, "STORED", tmp_path)
    monkeypatch.setattr(teach_table, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(teach_table, "plot_teach", lambda result, path: path)
    teach_table.main()
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert teach_table.table(rows) in page
    assert "| 90/85+70/60 |" not in page
