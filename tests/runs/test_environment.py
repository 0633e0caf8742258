import pytest

from cascade_srn.runs.environment import command_line, shareable


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["/usr/bin/cascade-srn", "train", "r.yaml"], "cascade-srn train r.yaml"),
        (["/a/cascade_srn/cli/__main__.py", "train", "/b/r.yaml"], "python -m cascade_srn.cli train …/r.yaml"),
        (["/a/cascade_srn/__main__.py", "train", "r.yaml"], "python -m cascade_srn train r.yaml"),
        (["/a/tools/measure.py", "--data", "/a/b"], "python tools/measure.py --data …/b"),
        (["x", "--models", "small,/d/e,/f/g"], "x --models small,…/e,…/g"),
        (["x", "data.train=/c/train.json", "a=1e-5"], "x data.train=…/train.json a=1e-5"),
    ],
)
def test_commands_without_folders(arguments, shown):
    assert command_line(arguments) == shown


def test_values_without_folders():
    values = {"a": ["/x/y", "runs/z"], "b": {"c": ("/d/e", 1, None)}}
    assert shareable(values) == {"a": ["…/y", "runs/z"], "b": {"c": ["…/e", 1, None]}}
