"""Functions that replace the start of a worker process. They run in that process, most of them without torch."""

import os
import signal
import time
from pathlib import Path

from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.local import start_worker
from cascade_srn.apps.corpus.shards import ShardResult
from cascade_srn.errors import CascadeError, ModelError


def _result(shard, attempt):
    return ShardResult(
        shard.id, {"documents": shard.n_rows, "entities": 0, "relations": 0, "errors": 0}, {}, 0, 0, 0.0, attempt
    )


def _note(job, shard, what):
    """Leave a trace of a call in the output folder."""
    with Path(job.output, f"{shard.id}.{what}").open("a") as handle:
        handle.write(f"{os.getpid()}\n")


def start_good(job, slot):
    def process(shard, attempt):
        _note(job, shard, "done")
        return _result(shard, attempt)

    return process


def start_dying(job, slot):
    """The second shard kills its worker at the first attempt, and the third shard always does."""

    def process(shard, attempt):
        _note(job, shard, "begun")
        if shard.id == "s2" or (shard.id == "s1" and attempt == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return _result(shard, attempt)

    return process


def start_raising(job, slot):
    def process(shard, attempt):
        if shard.id == "s1":
            raise RuntimeError("the device is lost")
        _note(job, shard, "done")
        return _result(shard, attempt)

    return process


def start_full_disk(job, slot):
    def process(shard, attempt):
        if shard.id == "s1":
            raise JobError("the disk is full", "Free some space", option="resume")
        return _result(shard, attempt)

    return process


def start_network(job, slot):
    """The network comes back at the second attempt of the second shard, and never for the third."""

    def process(shard, attempt):
        if shard.id == "s2" or (shard.id == "s1" and attempt == 1):
            raise JobError("no network", is_temporary=True)
        return _result(shard, attempt)

    return process


def start_slow(job, slot):
    def process(shard, attempt):
        _note(job, shard, "begun")
        if shard.id == "s1":
            time.sleep(600)
        return _result(shard, attempt)

    return process


def start_all_slow(job, slot):
    def process(shard, attempt):
        _note(job, shard, "begun")
        time.sleep(600)

    return process


def start_without_model(job, slot):
    raise ModelError("there is no model", "Give another")


def start_and_die(job, slot):
    with Path(job.output, "worker.loading").open("a") as handle:
        handle.write(f"{os.getpid()}\n")
    os.write(1, b"some library failed\n")
    os._exit(7)


def start_printing(job, slot):
    """Print and warn, as libraries do."""
    import warnings

    def process(shard, attempt):
        os.write(1, b"a line on standard output\n")
        warnings.warn("a limit was reached", stacklevel=1)
        return _result(shard, attempt)

    return process


def start_first_only(job, slot):
    """Only the first worker finds enough memory."""
    try:
        os.close(os.open(Path(job.output, "first"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1.0)
    return start_good(job, slot)


def start_poisoned(job, slot):
    """Start a real worker that dies when it reads a certain word."""
    process = start_worker(job, slot)
    extractor = process.__self__.extractor
    segmenter = extractor.segmenter

    def kill_or_split(text):
        if "poison" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "unlucky" in text:
            raise CascadeError("an unlucky text")
        return segmenter(text)

    extractor.segmenter = kill_or_split
    return process


def start_silent(job, slot):
    """The second shard stops its process at the first attempt, as a machine does that hangs."""

    def process(shard, attempt):
        if shard.id == "s1" and attempt == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
            # The signal stops all threads, but not always this one first.
            time.sleep(3600)
        return _result(shard, attempt)

    return process


def start_unhurried(job, slot):
    """Start a real worker that takes a second for each shard."""
    process = start_worker(job, slot)

    def process_slowly(shard, attempt):
        time.sleep(1.0)
        return process(shard, attempt)

    return process_slowly
