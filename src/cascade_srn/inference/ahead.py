"""Split texts into sentences and words, and tokenize them, in worker processes ahead of the model.

Texts go to the workers in chunks, and arrays of offsets and pieces come back. Sending documents would take about as
long as splitting. A text that fails in a worker is split again by the caller, who then gets the original error.
"""

from __future__ import annotations

import atexit
import os
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.encoder.windows import Integers
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.inference.predictor import check_characters
from cascade_srn.inference.streaming import MOST_BATCHES, Outcome
from cascade_srn.runs.children import DONE, ENDED, FAILED, WARNED, ChildEvent, FunctionChild
from cascade_srn.runs.garbage import without_garbage_collection
from cascade_srn.text.segment import Segmenter
from cascade_srn.types import Document, Sentence

# Characters of a chunk. A worker needs some hundredths of a second for it.
_CHUNK = 1 << 15
# Average number of characters per word, with the space after it, and the least that a text counts as.
_CHARACTERS_PER_WORD, _SHORTEST = 8, 64
# Each worker may always have this many chunks, so that it has one while the next is read.
_CHUNKS_PER_WORKER = 2
# As in other workers: the cores are divided among processes.
_ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


class SplitTexts(NamedTuple):
    """Texts of a chunk, split and tokenized, as arrays for the pipe."""

    n_sentences: list[int | None]  # Number of sentences of each text, or None if it failed
    n_words: list[int]  # Number of words of each sentence
    offsets: Integers  # Start and end of each word, uint32. Shape: (2, n_words)
    pieces: Integers | None  # Pieces of all words, uint32, or None if they are not known
    sizes: Integers | None  # Number of pieces of each word, uint32


def start_splitter(path: str) -> Callable[[Sequence[str]], SplitTexts]:
    """Make the function of a worker from the pickled segmenter and, if it shall tokenize, the word pieces."""
    segmenter, pieces = pickle.loads(Path(path).read_bytes())
    return Splitter(segmenter, pieces)


@dataclass(frozen=True)
class Splitter:
    """Splits chunks of texts, and tokenizes them unless ``pieces`` is None."""

    segmenter: Segmenter
    pieces: WordPieces | None

    def __call__(self, texts: Sequence[str]) -> SplitTexts:
        """Split and tokenize. Errors of a text are only marked."""
        found = list(map(self._split, texts))
        sentences = [sentence for each in found if each is not None for sentence in each]
        offsets = np.array([pair for s in sentences for pair in s.offsets], dtype=np.uint32).reshape(-1, 2)
        n_sentences = [None if each is None else len(each) for each in found]
        pieces = self._tokenize([sentence.words for sentence in sentences])
        return SplitTexts(n_sentences, list(map(len, sentences)), np.ascontiguousarray(offsets.T), *pieces)

    def _split(self, text: str) -> tuple[Sentence, ...] | None:
        try:
            check_characters(text)
            return Document.from_text(text, segmenter=self.segmenter).sentences
        except Exception:
            return None

    def _tokenize(self, sentences: Sequence[Sequence[str]]) -> tuple[Integers | None, Integers | None]:
        try:
            if self.pieces is not None:
                pieces, sizes = self.pieces.tokenize(sentences)
                return pieces.astype(np.uint32), sizes.astype(np.uint32)
        except Exception:  # The caller tokenizes again, and finds out which document fails.
            pass
        return None, None


@dataclass(eq=False)
class _Chunk:
    """Items of the stream, from a position on, and what a worker made of the texts among them."""

    position: int
    items: list[Any]
    size: int
    result: SplitTexts | None = None


class SplitPool:
    """Worker processes that split texts ahead.

    Args:
        n_workers: Number of processes, at least one.
        segmenter: Splits texts. The processes must be able to import it.
        pieces: Tokenizes words, or None if workers shall not.
        split: Splits an item of the stream in this process, at a position. It is for items that are not plain strings,
            and for texts that failed.
        batch_words: Words of a batch. Texts for about twice the batches of a part are read ahead.

    Attributes:
        rows: Rows of the sentences of a document, by its position in the stream, to be removed by the caller.

    Raises:
        ConfigError: If ``n_workers`` is not a number, or the segmenter cannot be sent to another process.
    """

    def __init__(
        self,
        n_workers: int,
        segmenter: Segmenter,
        pieces: WordPieces | None,
        split: Callable[[int, Any], Outcome],
        batch_words: int,
    ) -> None:
        self.n_workers = n_workers
        self._arguments = _pickle_arguments(segmenter, pieces)
        self._split = split
        self._chunk_size = min(_CHUNK, _CHARACTERS_PER_WORD * batch_words)
        self._ahead = max(
            2 * MOST_BATCHES * batch_words * _CHARACTERS_PER_WORD, _CHUNKS_PER_WORKER * n_workers * self._chunk_size
        )
        self.rows: dict[int, list[Row]] = {}
        self._events: SimpleQueue[ChildEvent] = SimpleQueue()
        self._queues: dict[FunctionChild, deque[_Chunk]] = {}

    def run(self, items: Iterator[Any]) -> Generator[Outcome, None, None]:
        """Yield a document or a failure for each item, in order. No worker is left at the end.

        If ``items`` raises an error, it is raised after the items before it.
        """
        waiting: deque[_Chunk] = deque()
        position, ahead, failure = 0, 0, None
        is_open = True
        with TemporaryDirectory(prefix="cascade-srn-", ignore_cleanup_errors=True) as folder:
            # A script may end with an open stream. When Python removes it, the threads that listen cannot end any more.
            atexit.register(self._close)
            try:
                self._start(Path(folder))
                while is_open or waiting:
                    n_read = 0
                    # At least two chunks for each one that is yielded, as long as there is room.
                    while is_open and ahead < self._ahead and (n_read < 2 or not self._is_done(waiting)):
                        chunk, is_open, failure = self._read(items, position)
                        n_read += 1
                        if chunk.items:
                            waiting.append(chunk)
                            self._hand_out(chunk)
                            position, ahead = position + len(chunk.items), ahead + chunk.size
                    if waiting:
                        while not self._is_done(waiting):
                            self._handle(self._events.get())
                        chunk = waiting.popleft()
                        ahead -= chunk.size
                        yield from self._outcomes(chunk)
            finally:
                atexit.unregister(self._close)
                self._close()
        if failure is not None:
            raise failure

    def _start(self, folder: Path) -> None:
        path = folder / "arguments"
        path.write_bytes(self._arguments)
        for number in range(self.n_workers):
            child = FunctionChild(
                start_splitter,
                (str(path),),
                events=self._events,
                log=folder / f"worker-{number}.log",
                environment={name: os.environ.get(name, value) for name, value in _ENVIRONMENT.items()},
            )
            self._queues[child] = deque()

    def _close(self) -> None:
        children = list(self._queues)
        self._queues.clear()
        for child in children:
            child.kill()
        for child in children:
            child.close()

    def _read(self, items: Iterator[Any], position: int) -> tuple[_Chunk, bool, Exception | None]:
        """Read a chunk. Return it, whether there may be more, and the error that ended the stream, if any."""
        chunk = _Chunk(position, [], 0)
        try:
            for item in items:
                chunk.items.append(item)
                chunk.size += max(len(item), _SHORTEST) if isinstance(item, str) else _SHORTEST
                if chunk.size >= self._chunk_size:
                    return chunk, True, None
        except Exception as error:
            return chunk, False, error
        return chunk, False, None

    def _hand_out(self, chunk: _Chunk) -> None:
        """Send the texts of a chunk to the worker that has least to do."""
        child = min(self._queues, key=lambda child: sum(each.size for each in self._queues[child]))
        self._queues[child].append(chunk)
        child.call([item for item in chunk.items if type(item) is str])

    def _is_done(self, waiting: deque[_Chunk]) -> bool:
        """Return whether the first chunk is split."""
        while not self._events.empty():
            self._handle(self._events.get())
        return bool(waiting) and waiting[0].result is not None

    def _handle(self, event: ChildEvent) -> None:
        if event.kind == DONE:
            self._queues[event.child].popleft().result = event.value
        elif event.kind == WARNED:
            warnings.warn(event.value, stacklevel=3)
        elif event.kind in (FAILED, ENDED):
            reason = event.value if event.kind == FAILED else event.child.cause_of_death()
            raise CascadeError(f"the texts cannot be split in other processes: {reason}", "Use fewer workers, or none")

    def _outcomes(self, chunk: _Chunk) -> Iterator[Outcome]:
        assert chunk.result is not None
        with without_garbage_collection():
            documents = iter(_make_documents([item for item in chunk.items if type(item) is str], chunk.result))
        for position, item in enumerate(chunk.items, chunk.position):
            document, rows = next(documents) if type(item) is str else (None, None)
            if rows is not None:
                self.rows[position] = rows
            yield self._split(position, item) if document is None else document


def _make_documents(texts: Sequence[str], split: SplitTexts) -> list[tuple[Document | None, list[Row] | None]]:
    """Return the document of each text, and the rows of its sentences. None: they are not known."""
    starts, stops = split.offsets.tolist()
    ends = pairwise(np.cumsum([0, *split.n_words]).tolist())
    rows: Iterator[Row] | None = None
    if split.pieces is not None and split.sizes is not None:
        rows = iter(WordPieces.cut_rows(split.pieces.astype(np.int64), split.sizes.astype(np.int64), split.n_words))
    found: list[tuple[Document | None, list[Row] | None]] = []
    for text, number in zip(texts, split.n_sentences, strict=True):
        if number is None:
            found.append((None, None))
            continue
        offsets = [tuple(zip(starts[a:b], stops[a:b], strict=True)) for a, b in islice(ends, number)]
        document = Document.unchecked(text, tuple([Sentence.of_text(text, words) for words in offsets]))
        found.append((document, None if rows is None else list(islice(rows, number))))
    return found


def _pickle_arguments(segmenter: Segmenter, pieces: WordPieces | None) -> bytes:
    try:
        named = pickle.dumps(segmenter)
    except Exception as error:
        named, reason = b"", f": {error}"
    else:
        reason = ""
    # A worker does not run the main module of its parent.
    if not named or b"__main__" in named:
        raise ConfigError(
            f"the segmenter cannot be sent to another process{reason}",
            "Define it in a module that can be imported, or use no workers",
            option="workers",
        )
    return pickle.dumps((segmenter, pieces))
