"""Measure a corpus job with a short sample: its time, and the size of its shards. Nothing is written."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cascade_srn.apps.corpus.inputs import RowReader, find_input_files
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.shards import UNIT_BYTES, InputFile, InputRow, InputSettings, Shard, plan_shards
from cascade_srn.errors import CascadeError
from cascade_srn.runs.children import call_once
from cascade_srn.runtime.device import Slot, choose_slots, find_devices
from cascade_srn.storage.bundled import find_model

# Number of documents of the sample. A GPU is only busy with larger batches.
_N_SAMPLED, _N_SAMPLED_ON_GPU = 48, 768
_N_WARMUP = 8
# Seconds that a shard should take, and the sample for that: its documents, their length, and its time at most. Inputs
# of fewer than _MIN_UNITS units have the smallest shards. A measurement would take longer than what it can save.
_SHARD_SECONDS = 30.0
_N_TIMED, _N_CHARACTERS, _TIMED_SECONDS, _TIMEOUT = 64, 4000, 2.0, 60.0
_MIN_UNITS = 16


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
    sized = find_shard_size(files, folder, settings, workers)
    shards = plan_shards(files, sized)
    slots = choose_slots(workers, settings.device, settings.threads, model=folder, n_shards=len(shards))
    n_sampled = _N_SAMPLED if slots[0].device == "cpu" else _N_SAMPLED_ON_GPU
    rows = sample_rows(files, shards, settings, n_sampled)
    # After the input is read, because these imports take seconds and the input may be wrong.
    from cascade_srn.extractor import Extractor
    from cascade_srn.runtime.device import using_threads

    with using_threads(slots[0].n_threads, folder, slots[0].device, settings.precision):
        started = time.perf_counter()
        extractor = Extractor.from_pretrained(folder, device=slots[0].device, **_extractor_options(settings))
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


def _extractor_options(settings: CorpusSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ("precision", "overlaps", "constraints", "skip")}


def find_shard_size(
    files: Sequence[InputFile], model: Path, settings: CorpusSettings, workers: int | str
) -> InputSettings:
    """Return the settings of the input with a size of shards that takes a worker about 30 seconds.

    The size is a power of two of units, so that small differences of speed do not change it. On a GPU, 1,000 documents
    take a few seconds, and nothing is measured.
    """
    inputs = settings.inputs
    if inputs.shard_documents is not None:
        return inputs
    if settings.device not in ("auto", "cpu") or find_devices(settings.device, model) != ["cpu"]:
        return replace(inputs, shard_documents=inputs.max_documents)
    size, n_bytes = inputs.unit_bytes, sum(file.blocks[-1][1] for file in files)
    if n_bytes >= _MIN_UNITS * UNIT_BYTES:
        slot = choose_slots(workers, "cpu", settings.threads, model=model, n_shards=n_bytes // UNIT_BYTES)[0]
        part = (next(at for at, file in enumerate(files) if file.n_rows), 0, _N_TIMED)
        try:
            with TemporaryDirectory() as folder:
                rate = call_once(
                    _bytes_per_second, files, part, model, settings, slot, log=Path(folder, "log"), timeout=_TIMEOUT
                )
        except CascadeError:
            rate = 0.0  # The workers will have the same problem, and report it.
        while size * 2 <= min(inputs.shard_bytes, rate * _SHARD_SECONDS):
            size *= 2
    return replace(inputs, shard_bytes=size)


def _bytes_per_second(
    files: Sequence[InputFile], part: tuple[int, int, int], model: Path, settings: CorpusSettings, slot: Slot
) -> float:
    """Return the speed of a worker with the first documents, for at most some seconds. It runs in a process."""
    from cascade_srn.extractor import Extractor
    from cascade_srn.runtime.device import set_threads

    set_threads(slot.n_threads, model, slot.device, settings.precision)
    extractor = Extractor.from_pretrained(model, device=slot.device, **_extractor_options(settings))
    at, first, stop = part
    with RowReader(files, settings.inputs) as reader:
        rows = list(reader.read(Shard("sample", ((at, first, min(stop, files[at].n_rows)),))))
    texts = [row.text[:_N_CHARACTERS] for row in rows if row.text]
    options: dict[str, Any] = {"on_error": "skip", "thresholds": settings.thresholds}
    for _ in extractor.stream(texts[:1], **options):  # prepares the model
        pass
    started, n_bytes, seconds = time.perf_counter(), 0, 0.0
    for number in range(0, len(texts), _N_WARMUP):
        some = texts[number : number + _N_WARMUP]
        n_bytes += sum(len(document.text.encode("utf-8", "replace")) for document in extractor.stream(some, **options))
        if (seconds := time.perf_counter() - started) > _TIMED_SECONDS:
            break
    return n_bytes / seconds if seconds else 0.0


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
