import pytest

from cascade_srn.training.progress import draw_curves

pytestmark = pytest.mark.slow

LINES = [
    {"step": 1, "loss": 9.0, "loss_entity": 5.0, "loss_subject": 3.0, "loss_object": 1.0},
    {"step": 2, "loss": 4.0, "loss_entity": 2.0, "loss_subject": 1.0, "loss_object": 1.0},
]
SCORED = {"best": True, "dev": {"symmetric": "directed", "ner": 0.5, "re_boundaries": 0.2, "re_strict": 0.1}}


def test_a_picture_of_what_was_logged(tmp_path):
    pictures = []
    for lines in ([], LINES, [LINES[0], LINES[1] | SCORED]):
        draw_curves(lines, tmp_path / "curves.png")
        pictures.append((tmp_path / "curves.png").read_bytes())
        assert pictures[-1].startswith(b"\x89PNG")
    assert len(set(pictures)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
