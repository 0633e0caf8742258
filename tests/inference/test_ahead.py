import os
import pickle
import signal
import subprocess
import sys
from itertools import count

import numpy as np
import psutil
import pytest
from tests.apps.extract.models import extractor as make_extractor
from tests.cli.conftest import restore_sigint
from tests.inference.failing_segmenter import fail_on_some

from cascade_srn import Document, Extractor
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.inference.ahead import Splitter
from cascade_srn.text.presplit import given_words
from cascade_srn.text.segment import segment

TEXT = "Ada leads Norlux.\nDr. Li's 🙂 isn't naïve (Oslo)!\n"

MANY_ENTITIES = {"subject": 0.9}


class Subclass(str):
    """A text that is not sent to a worker."""


def items():
    for number in range(20):
        yield f"Text {number}.\n{TEXT * (number % 3)}"
        if number % 9 == 0:
            yield from ("", b"bytes", "half \ud800", Document.from_text(TEXT, id="own"), Subclass(TEXT), None)
    raise OSError("the disk is gone")


def outcomes(extractor, workers, **options):
    """Return all that a stream yields and reports."""
    found = []

    def note(bad):
        found.append((bad.position, bad.text, type(bad.error), str(bad.error)))

    stream = extractor.stream(items(), on_error=note, workers=workers, **options, thresholds=MANY_ENTITIES)
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend((document.to_dict(), document.schema) for document in stream)
    return found


def children_now():
    return set(psutil.Process().children())


def test_workers_change_neither_results_nor_order_nor_errors():
    extractor, before = Extractor(make_extractor().model, segmenter=fail_on_some), children_now()
    expected = outcomes(extractor, 0, batch_words=64)
    # A process that is not to tokenize has an empty cache afterwards, but for the items that are not sent.
    words = extractor.model.collator.pieces.words
    words._by_word.clear()
    assert outcomes(extractor, 2, batch_words=64) == expected
    assert {type(each[-1]) for each in expected} == {str, type(extractor.schema)}
    assert "Ada" in words._by_word
    assert "Text" not in words._by_word
    assert children_now() <= before


def test_a_failing_tokenizer_leaves_the_error_to_the_caller():
    class Failing:
        def tokenize(self, sentences):
            raise RuntimeError

    pieces = make_extractor().model.collator.pieces
    split, without = (Splitter(segment, each)([TEXT, "\ud800", ""]) for each in (pieces, Failing()))
    assert split.n_sentences == without.n_sentences == [len(segment(TEXT)), None, 0]
    assert np.array_equal(split.offsets, without.offsets)
    assert without.pieces is None
    assert split.sizes.sum() == len(split.pieces) == sum(len(pieces.row([w]).pieces) for w in words_of(TEXT))


def words_of(text):
    return [word for sentence in Document.from_text(text).sentences for word in sentence.words]


@pytest.mark.parametrize("name", ["[MASK]", "[SEP]"])
def test_a_copy_reads_the_names_of_special_tokens_as_text(name):
    pieces = make_extractor().model.collator.pieces
    assert pickle.loads(pickle.dumps(pieces)).row([name]).pieces.tolist() == pieces.row([name]).pieces.tolist()


def test_a_segmenter_that_workers_cannot_import():
    extractor = Extractor(make_extractor().model, segmenter=given_words([["a"]]))
    with pytest.raises(ConfigError, match=r"segmenter.*no workers \(workers\)"):
        extractor.stream(["a"], workers=1)
    with pytest.raises(ConfigError, match="workers is -1"):
        make_extractor().stream(["a"], workers=-1)


@pytest.mark.slow
def test_a_killed_worker_is_an_error_and_a_closed_stream_leaves_none():
    n_read, before = 0, children_now()

    def texts():
        nonlocal n_read
        for n_read in count(1):  # noqa: B007
            yield TEXT

    def begin():
        stream = make_extractor().stream(texts(), workers=2, batch_words=16, thresholds=MANY_ENTITIES)
        assert next(stream).text == TEXT
        return stream, children_now() - before

    stream, children = begin()
    # Two parts of 16 batches of 16 words, of 8 characters.
    assert n_read <= 4096 // len(TEXT) + 3
    assert len(children) == 2
    stream.close()
    assert children_now() <= before
    stream, children = begin()
    min(children, key=lambda child: child.pid).kill()
    with pytest.raises(CascadeError, match="other processes: the worker was ended by SIGKILL"):
        list(stream)
    assert children_now() <= before


# Without `if __name__ == "__main__"`.
SCRIPT = """
import psutil
from cascade_srn import Extractor

def texts():
    while True:
        yield "Ada Berg leads Norlux in Oslo."

stream = Extractor.from_pretrained(device="cpu").stream(texts(), workers=2, batch_words=16, thresholds=0.9)
next(stream)
print(*(child.pid for child in psutil.Process().children()), flush=True)
for document in stream:
    pass
"""


@pytest.mark.slow
def test_a_script_may_end_with_an_open_stream(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.partition("for document")[0], encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    children = [int(pid) for pid in ended.stdout.split()]
    assert len(children) == 2
    assert not any(map(psutil.pid_exists, children))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there are no such signals here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_a_script(tmp_path, number):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_sigint,
    ) as parent:
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.send_signal(number)
        _, messages = parent.communicate(timeout=60)
    assert len(children) == 2
    assert parent.returncode == -number, messages
    # An error may have another one as its cause, but only the script reports one.
    n_reported = messages.count("Traceback") - messages.count("During handling of the above")
    assert n_reported == (number == signal.SIGINT)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
