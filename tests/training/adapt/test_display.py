"""How adapting is shown."""

import io

from rich.console import Console

from cascade_srn.training.adapt.display import display, line
from cascade_srn.training.adapt.settings import AdaptProgress

FIRST = AdaptProgress(0, 20, 1, perplexity=1234.5, seconds=1.0)
ON_THE_WAY = AdaptProgress(5, 20, 1, loss=2.5, pieces_per_second=1234.0, seconds=10.0)
DONE = AdaptProgress(20, 20, 2, loss=2.0, perplexity=7.0, pieces_per_second=1000.0, seconds=40.0)


def test_lines():
    assert line(FIRST) == "step 0/20  held-out perplexity 1,234.50"
    assert line(ON_THE_WAY) == "step 5/20  loss 2.500  1,234 pieces/s  30 s left"
    assert line(DONE) == "step 20/20  loss 2.000  held-out perplexity 7.00  1,000 pieces/s  done"


def _shown(**options):
    console = Console(file=io.StringIO(), width=120, **options)
    with display(console) as shown:
        for progress in (FIRST, ON_THE_WAY, DONE):
            shown.step(progress.step)
            shown.progress(progress)
    return console.file.getvalue()


def test_a_file_gets_a_line_each():
    assert _shown() == "".join(f"{line(progress)}\n" for progress in (FIRST, ON_THE_WAY, DONE))


def test_a_terminal_keeps_the_measurements():
    shown = _shown(force_terminal=True, color_system=None)
    assert line(FIRST) in shown
    assert line(DONE) in shown
    assert "20/20" in shown
