"""Label raw text with teachers: from files to a folder of labels."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.inference.batching import group_by_words
from cascade_srn.inference.predictor import halve_on_out_of_memory
from cascade_srn.inputs.texts import find_texts, read_texts, sentence_key
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.runs.display import ProgressRow, duration
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.runs.folder import OutputFolder, remove
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
from cascade_srn.storage.files import checksum
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.ensemble import Ensemble
from cascade_srn.training.distil.sampling import SampledText, sample_sentences
from cascade_srn.training.distil.turns import Labelled, Prepared
from cascade_srn.training.labelled import FORMAT_VERSION, RECORD, SelectedDocument, ShardArrays, ShardFiles, read_record
from cascade_srn.types import Document, Sentence


@dataclass(frozen=True)
class LabelProgress:
    """Number of labelled sentences, total number, elapsed seconds, and sentences per second."""

    done: int
    total: int
    seconds: float
    per_second: float

    def row(self) -> ProgressRow:
        """Return the report for the display."""
        is_done = self.done == self.total
        until = "done" if is_done else f"{duration((self.total - self.done) / self.per_second)} left"
        rate = f"{self.per_second:,.0f} sentences/s  {until}"
        line = f"labelled {self.done:,}/{self.total:,} sentences  {rate}"
        return ProgressRow("labelling", self.done, self.total, rate, line, to_file=is_done)


class Labelling:
    """Labels raw text. Iterate over it to label; at the end ``output`` is a folder of labels.

    Text, teachers, settings and folder are checked before anything is labelled. Finished labels that were made with the
    same inputs are used unchanged. With ``accelerate launch`` each process labels its share of the shards. The folder
    is locked until the labelling ends. Sentences of ``holdout``, files of annotated documents, are not labelled.
    ``check`` may refuse the schema of the teachers.
    """

    def __init__(
        self,
        teachers: Sequence[str | Path],
        texts: Sequence[str | Path],
        output: str | Path,
        settings: LabelSettings | None = None,
        *,
        holdout: Sequence[Document] = (),
        resume: bool = False,
        overwrite: bool = False,
        device: str = "auto",
        command: str | None = None,
        check: Callable[[Schema], object] = lambda schema: None,
    ) -> None:
        self.settings = LabelSettings() if settings is None else settings
        self.teachers, self.texts, self.holdout = list(teachers), list(texts), list(holdout)
        self.folder = LabelFolder(output)
        self.context = RunContext(device, command)
        self.accelerator, self.device = self.context.accelerator, self.context.device
        if not self.teachers:
            raise ConfigError("there is no teacher", "Give one or more trained models", option="teachers")
        with ExitStack() as held:
            if self.context.is_main:
                held.enter_context(self.folder.lock())
            self._prepare(resume=resume, overwrite=overwrite, check=check)
            self._held = held.pop_all()

    def _prepare(self, *, resume: bool, overwrite: bool, check: Callable[[Schema], object]) -> None:
        """Load the teachers, read the text and prepare the folder."""
        self.folder.check_options(resume=resume, overwrite=overwrite)
        files = find_texts(self.texts)
        self._folders = [find_model(teacher) for teacher in self.teachers]
        models = [Model.load(folder) for folder in self._folders]
        for model in models:
            model.require_cascade("labelling text")
        self.ensemble = self._ensemble(models)
        check(self.ensemble.schema)
        self._made_with = self._identity(files)
        self.is_there = self._is_there(resume=resume, overwrite=overwrite)
        self.sentences: SampledText | None = None
        if self.is_there and self.context.is_main:
            self.folder.clean_up()
        if not self.is_there:
            self._begin(files, resume=resume)

    def _ensemble(self, models: Sequence[Model]) -> Ensemble:
        for model in models:
            model.network.to(self.device)
        bf16 = self.settings.precision == "bf16" or (self.settings.precision == "auto" and self.device.type == "cuda")
        return Ensemble(models, floor=self.settings.floor, batch_words=self.settings.batch_words, bf16=bf16)

    def _identity(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return checksums and settings that determine the labels."""
        keys = {sentence_key(sentence.words) for document in self.holdout for sentence in document.sentences}
        settings = {name: value for name, value in self.settings.to_dict().items() if name != "batch_words"}
        return {
            "teachers": [checksum(folder) for folder in self._folders],
            "texts": [checksum(file) for file in files],
            "holdout": sha256(b"".join(sorted(keys))).hexdigest(),
            "settings": settings,
        }

    def _is_there(self, *, resume: bool, overwrite: bool) -> bool:
        """Return whether the folder has finished labels that were made with the same inputs."""
        if not self.folder.is_begun:
            return False
        if overwrite:
            return self._is_complete()
        same = self.folder.record().get("made_with") == self._made_with
        if same and self.folder.is_finished:
            return True
        self.folder.refuse_other(self._made_with)
        if not resume:
            raise ConfigError(
                f"the labelling in {str(self.folder.path)!r} is not finished",
                "Resume it, or start over with overwrite",
                option="resume",
            )
        return False

    def _is_complete(self) -> bool:
        """Return whether the labels are the same and undamaged."""
        try:
            return self.folder.record().get("made_with") == self._made_with and self.folder.is_whole()
        except DataError:
            return False

    def _begin(self, files: Sequence[Path], *, resume: bool) -> None:
        texts = read_texts(files, field=self.settings.field)
        self.sentences = sample_sentences(texts, self.holdout, self.settings)
        self.shards = self.sentences.shards(self.settings.shard_sentences)
        # All processes must have checked the folder before one of them changes it.
        self.accelerator.wait_for_everyone()
        if self.context.is_main:
            described = {
                "command": self.context.command,
                "teachers": [str(teacher) for teacher in self.teachers],
                "texts": [str(text) for text in self.texts],
                "schema": self.ensemble.schema.to_dict(),
                "joint": self.ensemble.joint,
                "counts": asdict(self.sentences.counts),
            }
            self.folder.begin(self._made_with, shareable(described), overwrite=not resume)
        self.accelerator.wait_for_everyone()

    def __iter__(self) -> Iterator[LabelProgress]:
        if self.is_there or self.sentences is None:
            self._held.close()
            return
        n_processes, process = self.accelerator.num_processes, self.accelerator.process_index
        own = [number for number in range(len(self.shards)) if number % n_processes == process]
        total = sum(document.n_chosen for number in own for document in self.shards[number])
        started, done, here = time.perf_counter(), 0, 0
        for number in own:
            shard, files = self.shards[number], ShardFiles.of(self.folder.path, number)
            if files.is_whole():
                done += sum(document.n_chosen for document in shard)
                continue
            for count in self._label(shard, files):
                done, here = done + count, here + count
                seconds = time.perf_counter() - started
                yield LabelProgress(done, total, seconds, here / seconds)
        self.accelerator.wait_for_everyone()
        if self.context.is_main:
            seconds = time.perf_counter() - started
            self.folder.finish(len(self.shards), {"seconds": round(seconds, 1)})
        self._held.close()
        self.accelerator.wait_for_everyone()

    def __str__(self) -> str:
        if self.sentences is None:
            return f"Using the labels in {self.folder.path}, which were made with the same inputs."
        counts = asdict(self.sentences.counts)
        reasons = ("too_short", "too_long", "held_out", "repeated", "not_sampled")
        left_out = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in reasons if counts[name])
        return (
            f"{counts['documents']:,} documents, {counts['sentences']:,} sentences: {counts['labelled']:,} to label"
            f"{f' ({left_out})' if left_out else ''}, by {len(self.teachers)} "
            f"{'teacher' if len(self.teachers) == 1 else 'teachers'}."
        )

    def free(self) -> None:
        """Free the memory of the teachers."""
        del self.ensemble
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _label(self, shard: Sequence[SelectedDocument], files: ShardFiles) -> Iterator[int]:
        """Label a shard and write it; yield the sizes of its batches."""
        examples = [e for document in shard for e in document.examples(self.ensemble.context_words)]
        arrays = ShardArrays(len(examples))
        sentences: list[Sentence] = [example.sentence for example in examples]
        for members, found in label_batches(self.ensemble, examples):
            arrays.add(members, found.n_queries, found.certainty, found.tables)
            for at, sentence in zip(members, found.sentences, strict=True):
                sentences[at] = sentence
            yield len(members)
        files.write(shard, sentences, arrays.arrays())


def label_batches(ensemble: Ensemble, examples: Sequence[Example]) -> Iterator[tuple[list[int], Labelled]]:
    """Label sentences in batches; yield positions and labels. The rows of a batch are made during the one before."""
    costs = [ensemble.cost(example) for example in examples]
    groups = list(group_by_words(costs, ensemble.batch_words))
    with ThreadPoolExecutor(1, "preparing") as beside:

        def prepared(number: int) -> Future[Prepared]:
            return beside.submit(ensemble.prepare, [examples[i] for i in groups[number]])

        following = prepared(0) if groups else None
        for number, group in enumerate(groups, 1):
            batch, following = following, prepared(number) if number < len(groups) else None
            if batch is not None:
                yield from _label_within_memory(ensemble, examples, group, batch.result())


def _label_within_memory(
    ensemble: Ensemble, examples: Sequence[Example], group: list[int], prepared: Prepared
) -> list[tuple[list[int], Labelled]]:
    """Label a batch, in parts if memory runs out."""

    def label(part: Sequence[int]) -> list[tuple[list[int], Labelled]]:
        rows = prepared if len(part) == len(group) else ensemble.prepare([examples[i] for i in part])
        return [(list(part), ensemble.label(rows))]

    def shrink(part: Sequence[int]) -> bool:
        if len(part) > 1 and not ensemble.is_narrow:
            ensemble.is_narrow = True
            warnings.warn(
                f"the device ran out of memory on a batch of {len(part)} sentences, which is labelled in halves. "
                "Lower batch_words.",
                stacklevel=5,
            )
        return len(part) > 1

    return halve_on_out_of_memory(label, group, shrink)


def predict(ensemble: Ensemble, examples: Sequence[Example]) -> list[Sentence]:
    """Return the sentences with the predictions of the teachers."""
    found = [example.sentence.annotated((), ()) for example in examples]
    with_words = [i for i, example in enumerate(examples) if len(example.sentence)]
    for members, batch in label_batches(ensemble, [examples[i] for i in with_words]):
        for at, sentence in zip(members, batch.sentences, strict=True):
            found[with_words[at]] = sentence
    return found


class LabelFolder(OutputFolder):
    """A folder of labels, identified by its ``labels.json``, which is written first and again at the end.

    A shard is either complete or missing, so labelling can be killed at any moment.
    """

    marker = RECORD
    finished_by = ()
    kind = "labelled text"

    def record(self) -> dict[str, Any]:
        """Read ``labels.json``."""
        return read_record(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether all shards are written."""
        return self.is_begun and bool(self.record().get("finished"))

    def is_own(self, member: Path) -> bool:
        """Return whether a file belongs to the labels."""
        return ShardFiles.is_shard_file(member) or self.is_temporary(member)

    def is_whole(self) -> bool:
        """Return whether all shards are there and match their checksums. All of them are read."""
        if not self.is_finished:
            return False
        known = self.record().get("shards", [])
        shards = [ShardFiles.of(self.path, number) for number in range(len(known))]
        # Look for missing files before any file is read.
        return all(files.is_there for files in shards) and [files.compute_checksums() for files in shards] == known

    def refuse_other(self, made_with: Mapping[str, Any]) -> None:
        """Refuse labels that were made with other teachers, text, held-out data or settings."""
        before = self.record()["made_with"]
        for key, new in made_with.items():
            if before.get(key) != new:
                raise ConfigError(
                    f"the labels in {str(self.path)!r} were made with other {_NAMES.get(key, key)}",
                    "Use them unchanged as data.labels of a recipe, overwrite them, or choose another output folder",
                    option="overwrite",
                )

    def begin(self, made_with: Mapping[str, Any], described: Mapping[str, Any], *, overwrite: bool) -> None:
        """Prepare the folder. Complete shards stay, unless they are overwritten."""
        if overwrite and self.is_begun:
            # If the process is killed from here on, the folder can neither be used nor resumed.
            self._write({"made_with": {}, "finished": False})
        self.prepare(overwrite=overwrite)
        self._write({"made_with": dict(made_with), **described, "finished": False})

    def finish(self, n_shards: int, described: Mapping[str, Any]) -> None:
        """Record that all shards are written, with their checksums."""
        shards = [ShardFiles.of(self.path, number) for number in range(n_shards)]
        before = {key: value for key, value in self.record().items() if key != "format_version"}
        recorded = [files.checksums() for files in shards]
        self._write({**before, **described, "finished": True, "shards": recorded})
        self.clean_up()

    def clean_up(self) -> None:
        """Remove checksum files and temporary files from a finished folder. A kill at the end can leave some."""
        with self.writing():
            for number in range(len(self.record().get("shards", []))):
                ShardFiles.of(self.path, number).sums.unlink(missing_ok=True)
            for member in self.path.iterdir():
                if self.is_temporary(member):
                    remove(member)

    def _write(self, values: Mapping[str, Any]) -> None:
        self.write_json(RECORD, {"format_version": FORMAT_VERSION, **values})


_NAMES = {"texts": "text", "holdout": "held-out data"}
