"""Keep a graph equal to a folder of files: extract what is new or changed, and remove what is gone."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.engine import CorpusEngine
from cascade_srn.apps.corpus.inputs import find_input_files
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest
from cascade_srn.apps.corpus.progress import JobProgress
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.shards import InputFile, InputSettings
from cascade_srn.apps.graph.build import build_from
from cascade_srn.apps.graph.change import changing, vocabulary_changed, write_change
from cascade_srn.apps.graph.load import Extracted, load_files
from cascade_srn.apps.graph.settings import GraphReport, GraphSettings
from cascade_srn.apps.graph.sources import GraphSources, absolute_files, read_sources
from cascade_srn.apps.graph.store import RECORD, check_target, read_record
from cascade_srn.apps.graph.tables import load_library
from cascade_srn.apps.graph.vocabulary import read_vocabulary
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.model.folder import model_checksum
from cascade_srn.storage.bundled import find_model


@dataclass(frozen=True)
class SyncSettings:
    """How the files of a folder are extracted. None stands for what the graph was made with, or the default.

    Attributes:
        model: A model folder, the name of a bundled model, or a hub id.
        inputs: Which fields of the files are read.
        graph: Settings of the graph.
        engine: "local", "ray", or an engine. May differ from run to run, as the next two.
        workers: Number of workers, or "auto".
        device: "auto", "cpu", "cuda" or "cuda:N".
    """

    model: str | None = None
    inputs: InputSettings | None = None
    graph: GraphSettings | None = None
    engine: str | CorpusEngine = "local"
    workers: int | str = "auto"
    device: str = "auto"


def sync(
    graph: str | Path,
    folder: str | Path,
    settings: SyncSettings | None = None,
    *,
    progress: Callable[[JobProgress], None] | None = None,
) -> GraphReport:
    """Make a graph of the files in a folder, or bring it up to date.

    Files are compared by their content. What was extracted before an interruption is used by the next call. Readers see
    the old graph until the new one is complete.

    Args:
        graph: Folder of a graph that this function has made, or a new one.
        folder: Folder of JSON lines, Parquet, CSV, TSV or text files, compressed or not, with its subfolders.
        settings: Model and settings.
        progress: Called after each shard of the extraction.

    Raises:
        DataError: The folder has no files, or one cannot be read; or the graph was made by a build.
        ConfigError: The model or a setting differs from that of the graph.
    """
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        raise DataError(f"{folder} is not a folder", "Give the folder of the files")
    with changing(graph) as work:
        old = read_sources(graph) if (Path(graph) / RECORD).exists() else None
        if old is None:
            check_target(graph)
        given = settings or SyncSettings()
        made = _Follower.make(graph, old, given)
        files = find_input_files(root, made.inputs, skip=str(graph), root=root)
        known = made.files
        changed = {file.name: file for file in files if known.get(file.name) != file.sha256}
        gone = known.keys() - {file.name for file in files}
        read_vocabulary(made.graph)  # a mistake is reported before the extraction
        if old is not None and not changed and not gone and not vocabulary_changed(graph, made.graph):
            _clean(work)
            record = read_record(graph)
            values = {name: record[name] for name in ("counts", "dropped", "merges", "flags")}
            values["links"] = record.get("vocabulary", {}).get("links", {})
            return GraphReport(str(graph), **values, changes=dict.fromkeys(("added", "replaced", "removed"), 0))
        extraction = _Extraction(work, root, made, given, progress)
        jobs = extraction.run({name: file for name, file in changed.items() if file.n_rows})
        new = load_files(jobs, made.graph)
        failed = _failed_files(jobs)
        # Files with errors are tried again by the next call.
        hashes = {file.name: "" if file.name in failed else file.sha256 for file in files}
        report = _write(graph, made.sources(old, hashes), old, new, {*changed, *gone})
        _clean(work)
        notes = [f"{name}: {reason}" for name, reason in sorted(failed.items())]
        return replace(report, notes=(*notes, *report.notes), failed=failed)


def _write(
    graph: str | Path, sources: GraphSources, old: GraphSources | None, new: Extracted | None, touched: Collection[str]
) -> GraphReport:
    after = _names(new, touched)
    if old is None:
        if new is None:
            raise DataError("no file could be extracted", "See the messages above")
        report = build_from(replace(sources, extracted=new), graph)
        return replace(report, changes={"added": after.total(), "replaced": 0, "removed": 0})
    before = _names(old.extracted, touched)
    numbers = old.extracted.tables["documents"]["input"].to_pylist()
    gone = {number for number, name in enumerate(numbers) if name in touched}
    counts = {"added": after.total(), "replaced": (after & before).total(), "removed": (before - after).total()}
    return write_change(graph, sources, gone, new, **counts)


def _names(extracted: Extracted | None, files: Collection[str]) -> Counter[tuple[str, str]]:
    """Count the documents of some files by id and file."""
    if extracted is None:
        return Counter()
    columns = (extracted.tables["documents"][name].to_pylist() for name in ("document_id", "input"))
    return Counter(pair for pair in zip(*columns, strict=True) if pair[1] in files)


@dataclass(frozen=True)
class _Follower:
    """Model and settings of a graph that follows a folder.

    Attributes:
        model: The model, as it was named.
        checksum: Its checksum.
        inputs: Which fields are read.
        graph: Settings of the graph.
        files: Checksums of the files that are in the graph.
    """

    model: str | None
    checksum: str
    inputs: InputSettings
    graph: GraphSettings
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, graph: str | Path, old: GraphSources | None, given: SyncSettings) -> _Follower:
        """Combine what is given with what the graph was made with, and refuse differences."""
        own = None if given.graph is None else absolute_files(given.graph)
        asked = given.inputs or InputSettings()
        asked = replace(asked, shard_documents=asked.max_documents)  # of a job with few files, nothing is measured
        if old is None:
            model = None if given.model is None else _absolute(given.model)
            checksum = model_checksum(find_model(model))
            return cls(model, checksum, asked, own or GraphSettings())
        if old.follows is None:
            raise DataError(f"{graph} was not made by `graph sync`", "Choose a new folder, or use `graph update`")
        follows = old.follows
        model = follows["model"] if given.model is None else _absolute(given.model)
        checksum = model_checksum(find_model(model))
        if checksum != follows["sha256"]:
            raise ConfigError(
                f"the model has the checksum {checksum[:12]}, but {graph} was made with {follows['sha256'][:12]}",
                "Use that model, or choose a new folder for the graph",
                option="model",
            )
        inputs = InputSettings.from_dict(follows["inputs"])
        for new, known in ((given.inputs and asked, inputs), (own, old.settings)):
            _compare(graph, new, known)
        return cls(model, checksum, inputs, old.settings, follows["files"])

    def sources(self, old: GraphSources | None, files: Mapping[str, str]) -> GraphSources:
        """Return the sources of the graph with other files."""
        values = {"model": self.model, "sha256": self.checksum, "inputs": self.inputs.to_dict(), "files": dict(files)}
        extracted = Extracted({}, ()) if old is None else old.extracted
        return GraphSources(extracted, self.graph, values)


def _absolute(model: str) -> str:
    return os.path.abspath(model) if os.path.exists(model) else model


def _compare(graph: str | Path, new: Any, known: Any) -> None:
    if new is None or new == known:
        return
    before, after = known.to_dict(), new.to_dict()
    name = next(name for name in before if before[name] != after[name])
    raise ConfigError(
        f"{name} is {after[name]!r}, but {graph} was made with {before[name]!r}",
        "Leave it out, or choose a new folder for the graph",
        option=name,
    )


@dataclass(frozen=True)
class _Extraction:
    """Corpus jobs in the folder of an unfinished change. Finished shards of jobs that were killed are used."""

    work: Path
    root: str
    made: _Follower
    given: SyncSettings
    progress: Callable[[JobProgress], None] | None

    def run(self, wanted: Mapping[str, InputFile]) -> dict[Path, list[str]]:
        """Extract files. Return the jobs with the files to read from them."""
        found: dict[Path, list[str]] = {}
        left = dict(wanted)
        jobs = sorted(self.work.glob("job-*"))
        for path in jobs:
            manifest = self._read(path)
            if manifest is None:
                continue
            names = [file["name"] for file in manifest.inputs if _is_current(file, left)]
            if manifest.counts is None and len(names) == len(manifest.inputs):
                self._run_job(path, [left[name] for name in names])
            done = _complete_files(path, manifest)
            found[path] = [name for name in names if name in done]
            for name in found[path]:
                del left[name]
        if left:
            path = self.work / f"job-{len(jobs):05}"
            shutil.rmtree(path, ignore_errors=True)
            self._run_job(path, left.values())
            found[path] = list(left)
        return {path: names for path, names in found.items() if names}

    def _run_job(self, path: Path, files: Iterable[InputFile]) -> None:
        run(
            [file.address for file in files],
            path,
            model=self.made.model,
            engine=self.given.engine,
            workers=self.given.workers,
            resume=True,
            settings=CorpusSettings(inputs=self.made.inputs, device=self.given.device),
            progress=self.progress,
            root=self.root,
        )

    def _read(self, path: Path) -> Manifest | None:
        """Return the manifest of a job that this graph can use, or remove the job."""
        try:
            manifest = JobFolder(path).read_manifest()
        except DataError:
            manifest = None
        if manifest is not None and manifest.model_checksum == self.made.checksum:
            expected = Manifest.describe((), Path(manifest.model), "", CorpusSettings(inputs=self.made.inputs), ())
            same = dict(manifest.settings) | {"device": "auto"} == dict(expected.settings)
            if same and manifest.software == expected.software:
                return manifest
        shutil.rmtree(path, ignore_errors=True)
        return None


def _is_current(file: Mapping[str, Any], wanted: Mapping[str, InputFile]) -> bool:
    return file["name"] in wanted and wanted[file["name"]].sha256 == file["sha256"]


def _complete_files(path: Path, manifest: Manifest) -> set[str]:
    """Return the names of the files all of whose rows are in finished shards."""
    rows = dict.fromkeys(range(len(manifest.inputs)), 0)
    for shard, _ in JobFolder(path).finished(manifest.shards, check=True):
        for at, first, stop in shard.parts:
            rows[at] += stop - first
    return {file["name"] for at, file in enumerate(manifest.inputs) if rows[at] == file["n_rows"]}


def _failed_files(jobs: Mapping[Path, Collection[str]]) -> dict[str, str]:
    """Return the files with records that could not be processed, with the reason of the first."""
    parquet = load_library("pyarrow.parquet")
    found: dict[str, str] = {}
    for path, names in jobs.items():
        for file in sorted((path / "errors").glob("*.parquet")):
            for row in parquet.ParquetFile(file).read(["input", "reason"]).to_pylist():
                if row["input"] in names:
                    found.setdefault(row["input"], row["reason"])
    return found


def _clean(work: Path) -> None:
    """Remove the jobs whose documents are in the graph."""
    for path in work.glob("job-*"):
        shutil.rmtree(path, ignore_errors=True)
