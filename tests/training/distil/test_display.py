import io

from rich.console import Console

from cascade_srn.training.distil.display import comparison, display, line
from cascade_srn.training.distil.labelling import LabelProgress

HALF, WHOLE = LabelProgress(1500, 3000, 3.0, 500.0), LabelProgress(3000, 3000, 6.0, 500.0)


def test_a_moment_of_labelling():
    assert line(HALF) == "labelled 1,500/3,000 sentences  500 sentences/s  3 s left"
    assert line(WHOLE) == "labelled 3,000/3,000 sentences  500 sentences/s  done"


def test_elsewhere_than_on_a_terminal_the_end_is_told():
    out = io.StringIO()
    with display(Console(file=out, width=100)) as show:
        show(HALF)
        assert out.getvalue() == ""
        show(WHOLE)
    assert out.getvalue() == f"{line(WHOLE)}\n"


def test_on_a_terminal_there_is_a_bar():
    out = io.StringIO()
    with display(Console(file=out, width=100, force_terminal=True)) as show:
        show(HALF)
    assert "1500/3000" in out.getvalue()
    assert "500 sentences/s" in out.getvalue()


def _scores(ner, strict):
    figures = {"ner": ner, "re_boundaries": strict, "re_strict": strict}
    return {
        "symmetric": "directed",
        **{task: {"micro": dict.fromkeys(("precision", "recall", "f1"), value)} for task, value in figures.items()},
    }


def test_teacher_and_student_side_by_side():
    out = io.StringIO()
    teacher = {"dev": _scores(0.7, 0.4), "test": _scores(0.68, 0.38)}
    students = [
        {"dev": _scores(0.6, 0.3), "test": _scores(0.5, 0.2)},
        {"dev": _scores(0.62, 0.3), "test": _scores(0.5, 0.2)},
    ]
    Console(file=out, width=100).print(comparison(teacher, students))
    cells = [[cell.strip() for cell in row.split("│")[1:-1]] for row in out.getvalue().splitlines() if "micro" in row]
    assert cells[0] == ["dev", "NER, micro", "70.0", "61.0 ± 1.4"]
    assert cells[3] == ["test", "NER, micro", "68.0", "50.0 ± 0.0"]
    assert cells[5] == ["", "RE strict, directed, micro", "38.0", "20.0 ± 0.0"]
