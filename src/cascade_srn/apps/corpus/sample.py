"""Estimate the time of a corpus job from a short sample. Nothing is written."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.apps.corpus.inputs import RowReader, find_input_files
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.shards import InputFile, InputRow, Shard, plan_shards
from cascade_srn.runtime.device import choose_slots
from cascade_srn.storage.bundled import find_model

# Number of documents of the sample. A GPU is only busy with larger batches.
_N_SAMPLED, _N_SAMPLED_ON_GPU = 48, 768
_N_WARMUP = 8


@dataclass(frozen=True)
class Estimate:
    """Size and estimated time of a job."""

    n_files: int  # Number of input files
    n_bytes: int  # Their size, compressed where they are
    n_documents: int  # Number of rows of the input
    n_shards: int  # Number of shards
    n_workers: int  # Number of workers
    n_threads: int  # Number of CPU threads of each worker
    device: str  # Device of the first worker
    n_sampled: int  # Number of documents of the sample
    n_unreadable: int  # Number of them that cannot be used
    words_per_document: float  # Mean number of words of the sampled documents
    seconds_per_document: float  # Mean time of one worker for a document
    load_seconds: float  # Time to load the model

    @property
    def documents_per_second(self) -> float:
        """Documents per second of all workers together."""
        return self.n_workers / self.seconds_per_document

    @property
    def seconds(self) -> float:
        """Estimated time of the whole job."""
        return self.load_seconds + self.n_documents / self.documents_per_second

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "documents_per_second": self.documents_per_second, "seconds": self.seconds}


def estimate(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str] | None = None,
    workers: int | str = "auto",
    settings: CorpusSettings | None = None,
    output: str | None = None,
) -> Estimate:
    """Plan a job, and measure how long a few dozen documents from all over the input take.

    The estimate assumes that workers do not slow each other down.

    Args:
        inputs: See :func:`cascade_srn.apps.corpus.run`.
        model: See :func:`cascade_srn.apps.corpus.run`.
        workers: Number of workers, or "auto".
        settings: Settings of the job.
        output: Output folder. Its files are no input.
    """
    settings = settings or CorpusSettings()
    folder = find_model(model if model is None else os.fspath(model))
    files = find_input_files(inputs, settings.inputs, skip=output)
    shards = plan_shards(files, settings.inputs)
    slots = choose_slots(workers, settings.device, settings.threads, model=folder, n_shards=len(shards))
    n_sampled = _N_SAMPLED if slots[0].device == "cpu" else _N_SAMPLED_ON_GPU
    rows = sample_rows(files, shards, settings, n_sampled)
    # After the input is read, because these imports take seconds and the input may be wrong.
    from cascade_srn.extractor import Extractor
    from cascade_srn.runtime.device import using_threads

    with using_threads(slots[0].n_threads, folder, slots[0].device, settings.precision):
        started = time.perf_counter()
        extractor = Extractor.from_pretrained(
            folder,
            device=slots[0].device,
            precision=settings.precision,
            overlaps=settings.overlaps,
            constraints=settings.constraints,
            skip=settings.skip,
        )
        load_seconds = time.perf_counter() - started
        texts = [row.text for row in rows if row.text is not None]
        options: dict[str, Any] = {"batch_words": settings.batch_words, "thresholds": settings.thresholds}
        for _ in extractor.stream(texts[:_N_WARMUP], on_error="skip", **options):
            pass
        started = time.perf_counter()
        documents = list(extractor.stream(texts, on_error="skip", **options))
        seconds = time.perf_counter() - started
    n_words = sum(len(sentence) for document in documents for sentence in document.sentences)
    return Estimate(
        n_files=len(files),
        n_bytes=sum(file.n_bytes for file in files),
        n_documents=sum(shard.n_rows for shard in shards),
        n_shards=len(shards),
        n_workers=len(slots),
        n_threads=slots[0].n_threads,
        device=slots[0].device,
        n_sampled=len(rows),
        n_unreadable=len(rows) - len(documents),
        words_per_document=n_words / max(1, len(documents)),
        seconds_per_document=seconds / len(rows),
        load_seconds=load_seconds,
    )


def sample_rows(
    files: Sequence[InputFile], shards: Sequence[Shard], settings: CorpusSettings, n_rows: int
) -> list[InputRow]:
    """Return rows at equal distances over the whole input, or all rows if there are fewer."""
    total = sum(shard.n_rows for shard in shards)
    wanted = sorted({at * total // min(n_rows, total) for at in range(min(n_rows, total))})
    parts, position = [], 0
    for shard in shards:
        for file, first, stop in shard.parts:
            while wanted and wanted[0] < position + stop - first:
                row = first + wanted.pop(0) - position
                parts.append((file, row, row + 1))
            position += stop - first
    with RowReader(files, settings.inputs) as reader:
        return list(reader.read(Shard("sample", tuple(parts))))
