import json

from tests.cli.conftest import failure, run

from cascade_srn.storage.bundled import DEFAULT


def test_info(tiny_model_folder, capsys):
    assert run("info", tiny_model_folder) == 0
    text = capsys.readouterr().out
    assert str(tiny_model_folder) in text
    assert run("info", tiny_model_folder, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sha256"] in text
    assert record["family"] == "cascade"


def test_info_of_the_bundled_model(capsys):
    assert run("info", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["name"], record["damaged"]) == (DEFAULT, [])
    assert record["scores"]


def test_a_damaged_model(tiny_model_folder, tmp_path, capsys):
    for path in tiny_model_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes() + b"\n" * (path.name == "tokenizer.json"))
    assert run("info", tmp_path) == 1
    assert "tokenizer.json" in capsys.readouterr().out


def test_no_model(tmp_path, capsys):
    assert str(tmp_path) in failure(capsys, "info", tmp_path)


def test_models(capsys):
    assert run("models") == 0
    assert any(line.startswith(f"{DEFAULT} ") for line in capsys.readouterr().out.splitlines())
    assert run("models", "--json") == 0
    assert {"name", "source", "folder"} == set(json.loads(capsys.readouterr().out)[0])
