"""The wording of error messages, in one golden file."""

from tools.messages import GOLDEN, messages


def test_the_wording_is_that_of_the_golden_file():
    """After a deliberate change: ``python tools/messages.py --write``, and read the difference."""
    assert messages() == GOLDEN.read_text(encoding="utf-8")
