"""Train models of a project in a child process, and keep the curve of their scores.

Each run has a folder in ``training``: the data, the recipe, the model and the result. A run that was cancelled, failed
or killed leaves nothing behind but its log.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.files import AppendOnlyFile, read_lines
from cascade_srn.apps.annotation.project import TEACHER, Project
from cascade_srn.apps.annotation.suggestions import SUGGESTIONS, Suggestions
from cascade_srn.errors import DataError, TrainingError
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.formats.registry import write_documents, write_schema
from cascade_srn.runs.children import kill_process, start_child
from cascade_srn.storage.bundled import DEFAULT
from cascade_srn.types import Document

TRAINING, CURVE, LOG = "training", "curve.jsonl", "last-failure.log"
JOB, PROGRESS, RESULT, OUTPUT, FAILURE = "job.json", "progress.jsonl", "result.json", "output.log", "failure.json"
PRECISION = "precision_curves"
TRAIN, HELD_OUT, RAW, SCHEMA = "train.jsonl", "held_out.jsonl", "raw.jsonl", "schema.json"
# Held-out documents with the labels of the teacher, which the score on those of persons is kept apart from.
TEACHER_HELD_OUT = "held_out_teacher.jsonl"
BEST = Path("run") / "best"
IDLE, RUNNING, STOPPING, DONE, FAILED, CANCELLED = "idle", "running", "stopping", "done", "failed", "cancelled"
# Sentences from which a new model suggests something useful, and from which it can be used, roughly.
ENOUGH_FOR_SUGGESTIONS, ENOUGH_FOR_A_MODEL = 10, 100
# Seconds that a child has to end after SIGTERM.
_GRACE = 15.0


def current_model(project: Project) -> str | None:
    """Return the newest trained model of a project, or the one that it starts from, or None."""
    result = _last_result(project)
    return project.model if result is None else str(result.parent / BEST)


def _last_result(project: Project) -> Path | None:
    return max((project.folder / TRAINING).glob(f"run-*/{RESULT}"), default=None)


def _starting_model(project: Project) -> str | None:
    """Return the model that training starts from, or None if the project names an encoder instead."""
    if project.model is not None or project.encoder is not None:
        return project.model
    return DEFAULT


def read_curve(project: Project) -> list[dict[str, Any]]:
    """Return the scores of all finished runs, in order."""
    return read_lines(project.folder / TRAINING / CURVE, torn=True)[0]


def read_precision_curves(project: Project) -> list[dict[str, Any]]:
    """Return precision by recall of the newest trained model, with the levels that it promises."""
    result = _last_result(project)
    found = {} if result is None else json.loads(result.read_text(encoding="utf-8"))
    return list(found.get(PRECISION, ()))


class Learner:
    """Runs trainings of a project in a child process, one at a time.

    The project must be open for writing. Methods may be called from several threads.

    Args:
        project: The project.
        on_progress: Called with each line of progress, in another thread.
    """

    def __init__(self, project: Project, *, on_progress: Callable[[Mapping[str, Any]], None] | None = None) -> None:
        self.project = project
        self.suggestions = Suggestions(project.folder)
        self.folder = project.folder / TRAINING
        self._on_progress = on_progress
        self._lock = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._state, self._message, self._activity = IDLE, "", ""
        self._started = 0.0
        self._progress: Mapping[str, Any] = {}
        if not project.read_only:
            self._remove_unfinished()

    @property
    def has_model(self) -> bool:
        """Whether there is a model that makes suggestions."""
        return current_model(self.project) is not None

    def status(self) -> dict[str, Any]:
        """Return the state of training and the curve."""
        with self._lock:
            is_training = self._activity == "training"
            curve = read_curve(self.project)
            seconds = round(time.monotonic() - self._started, 1) if is_training else 0
            epoch, n_epochs = (self._progress.get(name, 0) if is_training else 0 for name in ("epoch", "n_epochs"))
            return {
                "state": self._state,
                "epoch": epoch,
                "n_epochs": n_epochs,
                "seconds": seconds,
                "seconds_left": round(seconds / epoch * (n_epochs - epoch)) if 0 < epoch < n_epochs else None,
                "message": self._message or (describe_result(curve[-1]) if self._state == DONE and curve else ""),
                "advice": self._advice(),
                "curve": curve,
                PRECISION: read_precision_curves(self.project),
                "note": describe_uncertainty(curve),
            }

    def _advice(self) -> str:
        """Say what a training would learn from and score on, and how many more annotations help."""
        done = self.project.done()
        all_held_out = {id for id in done if self.project.is_held_out(id)}
        held_out, done = all_held_out - self.project.unchecked(), done - all_held_out
        n_train = sum(len(self.project.documents[id].sentences) for id in done)
        parts = [
            f"Training learns from {_count(len(done), 'annotated document')} "
            f"({_count(n_train, 'sentence')}) and scores the model on {_count(len(held_out), 'held-out document')}."
        ]
        if n_train < ENOUGH_FOR_SUGGESTIONS:
            more = _count(ENOUGH_FOR_SUGGESTIONS - n_train, "more sentence")
            parts.append(f"The first suggestions are worth having after {more}.")
        elif n_train < ENOUGH_FOR_A_MODEL:
            parts.append(f"About {ENOUGH_FOR_A_MODEL - n_train} more sentences make a model that can be used.")
        if done and not held_out:
            parts.append("No held-out document is done, so the model will have no score.")
        return " ".join(parts)

    def start(self, *, raw: bool = False) -> None:
        """Start to train with the annotations that are done.

        Args:
            raw: Whether to learn from the text of open documents as well (:mod:`cascade_srn.training.raw`).

        Raises:
            TrainingError: A training is running.
            DataError: There is nothing to learn from.
        """
        with self._lock:
            if self._state in (RUNNING, STOPPING):
                raise TrainingError("a training is running", "Wait until it has ended, or cancel it")
            train, held_out = self._split()
            before = self._state
            # Set first, because waiting for another child releases the lock.
            self._state, self._message = RUNNING, "Loading the model"
            run = None
            try:
                self._stop_suggesting()
                run = self._new_run()
                write_documents(train, run / TRAIN, "jsonl")
                taught = [one for one in self.project.annotated_documents(TEACHER) if self.project.is_held_out(one.id)]
                rest = self._open_documents() if raw else []
                for documents, name in ((held_out, HELD_OUT), (taught, TEACHER_HELD_OUT), (rest, RAW)):
                    if documents:
                        write_documents(documents, run / name, "jsonl")
                self._write_job(run, "train")
                self._launch(run, "training")
                self._state, self._message = RUNNING, "Loading the model"
            except BaseException:
                self._state, self._message = before, ""
                if run is not None:
                    self._remove(run)
                raise

    def suggest(self) -> None:
        """Start to compute suggestions of the current model for all documents, unless something is running."""
        with self._lock:
            if self._child is not None or not self.has_model:
                return
            run = self._new_run()
            self._write_job(run, "suggest")
            self._launch(run, "suggestions")

    def cancel(self) -> None:
        """Stop the training and remove its folder. Does nothing if none is running."""
        with self._lock:
            if self._state != RUNNING or self._child is None:
                return
            self._state, self._message = STOPPING, "Stopping"
            self._child.terminate()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the child process has ended. Return False if it has not within the time."""
        watcher = self._watcher
        if watcher is not None:
            watcher.join(seconds)
        return watcher is None or not watcher.is_alive()

    def close(self) -> None:
        """Stop the child process."""
        with self._lock:
            child = self._child
            if self._state == RUNNING:
                self._state = STOPPING
        if child is not None:
            child.terminate()
            self.wait(_GRACE + 5)

    def _split(self) -> tuple[list[Document], list[Document]]:
        """Return the documents to learn from, and those that a person has annotated to score models on."""
        parts: tuple[list[Document], list[Document]] = [], []
        unchecked = self.project.unchecked()
        for document in self.project.annotated_documents():
            is_held_out = self.project.is_held_out(document.id)
            if not (is_held_out and document.id in unchecked):
                parts[is_held_out].append(document)
        if not any(document.entities for document in parts[0]):
            n_held_out = len(parts[1])
            more = f" ({n_held_out} annotated documents are held out to score the model)" if n_held_out else ""
            raise DataError(
                f"there is no annotated document with entities to learn from{more}", "Mark more documents as done"
            )
        return parts

    def _open_documents(self) -> list[Document]:
        """Return the documents that nobody has done and that are not held out."""
        done = self.project.done()
        found = [one for id, one in self.project.documents.items() if not (id in done or self.project.is_held_out(id))]
        if not found:
            raise DataError("there is no open document to use as raw text", "Add texts, or train without raw text")
        return found

    def _new_run(self) -> Path:
        numbers = [int(path.name[4:]) for path in self.folder.glob("run-*") if path.name[4:].isdecimal()]
        # Suggestions of removed runs count, so that new ones have the last name.
        numbers += [
            int(path.stem[4:])
            for path in (self.project.folder / SUGGESTIONS).glob("run-*.jsonl")
            if path.stem[4:].isdecimal()
        ]
        run = self.folder / f"run-{max(numbers, default=0) + 1:05d}"
        run.mkdir(parents=True)
        return run

    def _write_job(self, run: Path, kind: str) -> None:
        settings = self.project.settings
        model = _starting_model(self.project) if kind == "train" else current_model(self.project)
        model, encoder = (self._relative(path, run) for path in (model, self.project.encoder))
        write_schema(self.project.labels.schema, run / SCHEMA)
        raw = RAW if (run / RAW).exists() else None
        unchecked = sorted(self.project.unchecked())
        job = {"kind": kind, "raw": raw, "model": model, "encoder": encoder, "epochs": settings.epochs}
        with replacing(run / JOB) as handle:
            handle.write(to_json(job | {"seed": settings.seed, "unchecked": unchecked}).encode())

    def _relative(self, name: str | None, run: Path) -> str | None:
        """Return a path in the project as seen from a run, because the project can be moved; a name unchanged."""
        is_inside = name is not None and Path(name).is_relative_to(self.project.folder)
        return os.path.relpath(name, run) if name is not None and is_inside else name

    def _launch(self, run: Path, activity: str) -> None:
        self._activity, self._progress = activity, {}
        self._started = time.monotonic()
        # Threads that spin while they wait take the cores from each other beside a browser and other programs.
        waiting = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
        self._child = start_child(
            "cascade_srn.apps.annotation.worker", log=run / OUTPUT, folder=run, environment=waiting
        )
        self._watcher = threading.Thread(target=self._watch, args=(self._child, run), daemon=True)
        self._watcher.start()

    def _watch(self, child: subprocess.Popen[bytes], run: Path) -> None:
        """Read the progress of the child until it has ended, then keep or remove its run."""
        stopping_since: float | None = None
        at = 0
        while True:
            try:
                code: int | None = child.wait(0.2)
            except subprocess.TimeoutExpired:
                code = None
            at = self._read_progress(run, at)
            if code is not None:
                break
            if self._state == STOPPING:
                stopping_since = stopping_since or time.monotonic()
                if time.monotonic() - stopping_since > _GRACE:
                    kill_process(child)
        kill_process(child)
        with self._lock:
            try:
                self._finish(run, code)
            except OSError as error:  # such as a full disk
                self._state, self._message = FAILED, f"The result could not be stored ({error.strerror})"
                self._remove(run)
            self._child = None

    def _read_progress(self, run: Path, at: int) -> int:
        try:
            with (run / PROGRESS).open("rb") as handle:
                handle.seek(at)
                data = handle.read()
        except FileNotFoundError:
            return at
        complete = data[: data.rfind(b"\n") + 1]
        for line in complete.splitlines():
            progress = json.loads(line)
            with self._lock:
                self._progress = progress
                if self._state in (IDLE, RUNNING):
                    self._message = progress["message"]
            if self._on_progress is not None:
                self._on_progress(progress)
        return at + len(complete)

    def _finish(self, run: Path, code: int) -> None:
        activity, self._activity = self._activity, ""
        if activity == "suggestions":
            if self._state == IDLE:
                self._message = "" if code == 0 else f"The suggestions could not be computed: {_failure(run)}"
            self._remove(run, with_suggestions=code != 0)
        elif code == 0:
            self._keep(run)
            self._state, self._message = DONE, ""
        elif self._state == STOPPING:
            self._remove(run)
            self._state, self._message = CANCELLED, "Training was cancelled"
        else:
            self._state, self._message = FAILED, _failure(run)
            shutil.copyfile(run / OUTPUT, self.folder / LOG)
            self._remove(run)

    def _keep(self, run: Path) -> None:
        """Add the result to the curve, and remove the files of older runs that are not needed any more."""
        result = json.loads((run / RESULT).read_text(encoding="utf-8"))
        point = result | {"run": run.name, "time": datetime.now(UTC).isoformat(timespec="seconds")}
        point.pop(PRECISION, None)  # shown for the newest model only
        _, size = read_lines(self.folder / CURVE, torn=True)
        file = AppendOnlyFile(self.folder / CURVE, size)
        file.append(f"{to_json(point)}\n".encode())
        file.close()
        others = [one for one in self.folder.glob("run-*") if one != run]
        # A model that suggests nothing does not replace one that does.
        for one in [run] if others and finds_nothing(result) else others:
            shutil.rmtree(one, ignore_errors=True)

    def _remove(self, run: Path, *, with_suggestions: bool = True) -> None:
        shutil.rmtree(run, ignore_errors=True)
        if with_suggestions:
            (self.project.folder / SUGGESTIONS / f"{run.name}.jsonl").unlink(missing_ok=True)

    def _remove_unfinished(self) -> None:
        """Remove runs of a killed process."""
        for run in self.folder.glob("run-*"):
            if not (run / RESULT).is_file():
                self._remove(run)

    def _stop_suggesting(self) -> None:
        child = self._child
        if child is not None:
            child.terminate()
            self._lock.release()  # the watcher needs it to finish
            try:
                if not self.wait(_GRACE):
                    child.kill()
                    self.wait()
            finally:
                self._lock.acquire()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def finds_nothing(result: Mapping[str, Any]) -> bool:
    """Return whether a model suggests nothing although there are documents to annotate."""
    return bool(result.get("n_open")) and not result["n_suggested"]


def describe_result(result: Mapping[str, Any]) -> str:
    """Say what a new model suggests."""
    stages = describe_stages(result.get("stages", ()))
    if finds_nothing(result):
        return (
            f"{stages}The new model finds nothing in the documents that are not annotated, so the suggestions stay as "
            "they were. Annotate more documents, above all with rare labels, and train again."
        )
    if not result.get("n_open"):
        return f"{stages}All documents are annotated, so there is nothing to suggest."
    found = f"{result['n_suggested']:,} of {_count(result['n_open'], 'open document')}"
    return f"{stages}The new model suggests entities in {found}."


def describe_stages(stages: Iterable[Mapping[str, Any]]) -> str:
    """Say what each stage of a training with raw text has gained. Empty without stages."""
    parts = []
    for stage in list(stages)[1:]:
        scores = f"{100 * (stage['ner'] or 0):.1f} / {100 * (stage['re_strict'] or 0):.1f}"
        gained = f"skipped, {stage['skipped']}" if stage["skipped"] else "kept" if stage["kept"] else "undone, no gain"
        parts.append(f"{stage['name']}: {gained}" + ("" if stage["skipped"] else f" ({scores})"))
    return f"Raw text, by stage: {'; '.join(parts)}. " if parts else ""


def describe_uncertainty(curve: list[dict[str, Any]]) -> str:
    """Describe in words how far the scores of a curve can be trusted."""
    if not curve:
        return ""
    last = curve[-1]
    if not last["n_held_out"]:
        return "No held-out document is annotated, so the model has no score."
    parts = [
        f"F1 on {last['n_held_out']} held-out sentences of {last['n_held_out_documents']} documents, which are never "
        "trained on. The bars are 95 % intervals of a bootstrap over "
        f"{last['unit']}s; they leave out the variation between training runs."
    ]
    if last["ner_low"] is not None and last["ner_high"] - last["ner_low"] > 0.1:
        parts.append("The intervals are wide: annotate more held-out documents before you trust a difference.")
    parts.append("Held-out annotations that were accepted from suggestions favour the model.")
    return " ".join(parts)


def _failure(run: Path) -> str:
    """Return why a child has failed."""
    try:
        record = json.loads((run / FAILURE).read_text(encoding="utf-8"))
        return str(record["message"])
    except (OSError, ValueError, KeyError):
        return "the process ended unexpectedly, perhaps because of a lack of memory"
