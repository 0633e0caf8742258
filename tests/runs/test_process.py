import signal

import pytest

from cascade_srn.runs.process import sigterm_as_exit


def test_sigterm_raises_system_exit():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, sigterm_as_exit():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_postponed_termination_comes_after_the_block():
    done = []

    def work():
        with sigterm_as_exit() as termination:
            with termination.postponed():
                signal.raise_signal(signal.SIGTERM)
                done.append("block")
            done.append("after")

    with pytest.raises(SystemExit) as ended:
        work()
    assert done == ["block"]
    assert ended.value.code == 128 + signal.SIGTERM
