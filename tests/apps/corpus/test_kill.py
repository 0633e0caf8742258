"""Jobs that are killed at any moment. Compute may repeat, and output must not."""

import os
import signal

import pytest
from tests.apps.corpus.jobs import fingerprints, members, save_model, settings, texts, write_lines
from tools.kill_corpus import Options, disturb

from cascade_srn.apps.corpus.engine import Control
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.worker import write_failed_shard
from cascade_srn.storage.lock import LOCK

pytestmark = pytest.mark.slow
OPERATIONS = ("replace", "rename", "fsync", "unlink", "remove", "rmdir", "mkdir")


class ErrorEngine:
    """Writes all rows to ``errors``, with the file operations of a worker and without its model."""

    def run(self, job, shards, control: Control):
        for shard in shards:
            yield write_failed_shard(job, shard, "no model", 1)


def run_in_child(source, output, model, *, point=None, count=None):
    """Run a job in a forked process that kills itself before its n-th file operation; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            n_calls = _die_at(point)
            run(source, output, model=model, engine=ErrorEngine(), resume=True, settings=settings())
            if count is not None:
                count.write_text(str(n_calls()))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die_at(point):
    """Have this process kill itself before a file operation. Return a function that counts them."""
    n_calls = 0

    def watched(operation):
        def call(*arguments, **options):
            nonlocal n_calls
            n_calls += 1
            if n_calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **options)

        return call

    for name in OPERATIONS:
        setattr(os, name, watched(getattr(os, name)))
    return lambda: n_calls


def test_a_job_can_be_killed_at_every_file_operation(tmp_path):
    model, source = save_model(tmp_path / "model"), write_lines(tmp_path / "in.jsonl", texts(6))
    # In this process first, so that libraries are imported before processes are forked.
    run(source, tmp_path / "whole", model=model, engine=ErrorEngine(), settings=settings())
    expected = fingerprints(tmp_path / "whole")
    assert run_in_child(source, tmp_path / "counted", model, count=tmp_path / "count") == 0
    n_operations = int((tmp_path / "count").read_bytes())
    assert n_operations > 30
    n_killed = 0
    for point in range(1, n_operations + 1):
        output = tmp_path / f"at-{point}"
        n_killed += run_in_child(source, output, model, point=point) == -signal.SIGKILL
        assert run_in_child(source, output, model) == 0, point
        assert fingerprints(output) == expected, point
        assert set(members(output)) - {LOCK} == set(members(tmp_path / "whole")), point
    assert n_killed == n_operations


def test_random_kills_of_drivers_and_workers_change_nothing(tmp_path):
    model = save_model(tmp_path / "model")
    options = Options(model=str(model), workers=2, kills=3, documents=120, shard_documents=5, longest=6.0, seed=3)
    outcome = disturb(options, tmp_path)
    assert outcome.differences == []
    assert sum(outcome.kills.values()) == 3
