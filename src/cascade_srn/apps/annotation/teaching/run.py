"""Teach: choose sentences, ask the teacher about them, and write an annotation project with its labels.

The project has one document for each sentence. Teaching can be stopped and killed at any time: the next run asks only
what has no stored answer.
"""

from __future__ import annotations

import math
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.annotations import Annotation, ProjectLabels, annotation_of
from cascade_srn.apps.annotation.files import write_text
from cascade_srn.apps.annotation.learning import DONE, Learner, current_model
from cascade_srn.apps.annotation.project import TEACHER, Project, ProjectSettings
from cascade_srn.apps.annotation.selection import select
from cascade_srn.apps.annotation.suggestions import SUGGESTIONS, suggestion_line, write_priorities
from cascade_srn.apps.annotation.teaching.answers import Answer, Taught, combine, read_answer
from cascade_srn.apps.annotation.teaching.endpoint import Endpoint, EndpointError, QuestionFailed, Stopped
from cascade_srn.apps.annotation.teaching.ledger import TEACHING, Ledger
from cascade_srn.apps.annotation.teaching.prompts import DEFAULT_PROMPTS, Prompt, Question, make_questions
from cascade_srn.apps.annotation.units import UnitSettings
from cascade_srn.config import require_range
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.formats.files import to_json
from cascade_srn.model.folder import missing_for_torch
from cascade_srn.storage.atomic import replacing
from cascade_srn.types import Document

SUMMARY = "summary.json"
# The name comes after those of runs, so these suggestions are shown instead of those of the student.
TEACHER_SUGGESTIONS = "teacher.jsonl"
# Questions in a row without an answer after which the run stops.
_MAX_FAILURES = 10


@dataclass(frozen=True)
class TeachSettings:
    """How many sentences are labelled, and how.

    Attributes:
        sentences: Number of sentences.
        rounds: Rounds of choosing sentences: the first by diversity, the others by the doubt of a student.
        samples: Answers for each sentence.
        prompts: Files with prompts, which take turns.
        temperature: Temperature of answers to a prompt that was used for the sentence before.
        agreement: Share of the answers that have to agree on a label.
        parallel: Requests at a time.
        units: Length of sentences, and the seed.
        project: Settings of the project.
    """

    sentences: int = 300
    rounds: int = 2
    samples: int = 2
    prompts: tuple[Path, ...] = DEFAULT_PROMPTS
    temperature: float = 0.7
    agreement: float = 0.5
    parallel: int = 4
    units: UnitSettings = field(default_factory=UnitSettings)
    project: ProjectSettings = field(default_factory=ProjectSettings)

    def __post_init__(self) -> None:
        for name, high in (("sentences", math.inf), ("samples", 20), ("parallel", 256), ("rounds", 20)):
            require_range(name, getattr(self, name), 1, high, option=name)
        require_range("agreement", self.agreement, 0, 1, option="agreement")
        require_range("temperature", self.temperature, 0, 2, option="temperature")


class Teaching:
    """Labels the sentences of a project.

    Args:
        folder: Folder of the project, which is created if it does not exist.
        labels: Labels with definitions and examples.
        texts: Returns the documents to choose from. Called whenever sentences are chosen.
        settings: What to label.
        tell: Called with a sentence about each problem and each step.
    """

    def __init__(
        self,
        folder: Path,
        labels: ProjectLabels,
        texts: Callable[[], Iterable[Document]],
        settings: TeachSettings,
        *,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.folder, self.labels, self.settings = folder, labels, settings
        self._texts, self._tell = texts, tell
        self._prompts = [Prompt.read(path) for path in settings.prompts]

    def preview(self, ledger: Ledger) -> list[Question]:
        """Return the questions without an answer, without writing anything. All sentences are chosen by diversity."""
        documents: list[Document] = []
        if self._exists():
            with Project.open(self.folder, read_only=True) as project:
                self._check(project)
                documents += project.documents.values()
        if (missing := self.settings.sentences - len(documents)) > 0:
            documents += [one.document for one in self._select(missing, documents)]
        return self.open_questions(documents, ledger)

    def open(self) -> Project:
        """Open the project, or create it with the sentences of the first round."""
        if self._exists():
            project = Project.open(self.folder)
            try:
                self._check(project)
            except BaseException:
                project.close()
                raise
            return project
        chosen = self._select(self._target(1), ())
        documents = [one.document for one in chosen]
        return Project.create(self.folder, documents, self.labels, settings=self.settings.project)

    def _exists(self) -> bool:
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _check(self, project: Project) -> None:
        if any(len(document.sentences) != 1 for document in project.documents.values()):
            raise DataError(f"{self.folder} has documents of several sentences", "Choose a new folder", option="output")
        if project.labels.to_dict() != self.labels.to_dict():
            raise ConfigError(
                f"the labels are not those of {self.folder}",
                "Choose a new folder for other labels or definitions",
                option="output",
            )

    def run(self, project: Project, ledger: Ledger, endpoint: Endpoint, progress: Callable[[int, int], None]) -> None:
        """Ask about all sentences, round by round, and write the labels.

        Args:
            project: The project, open for writing.
            ledger: The stored answers, open for writing.
            endpoint: The teacher.
            progress: Called with the numbers of answers and of questions.

        Raises:
            EndpointError: The server cannot be used. Everything until then is written.
            BudgetSpent: The budget does not allow another request. Everything until then is written.
            KeyboardInterrupt: Ctrl-C, likewise.
        """
        for number in range(1, self.settings.rounds + 1):
            self._add_sentences(project, number)
            try:
                self._ask(project, ledger, endpoint, progress)
            finally:
                self.write(project, ledger)

    def _target(self, number: int) -> int:
        """Return the number of sentences after a round."""
        return math.ceil(self.settings.sentences * number / self.settings.rounds)

    def _select(self, n: int, known: Sequence[Document], **options: Any) -> list[Any]:
        return select(self._texts(), n, settings=self.settings.units, annotated=known, **options)

    def _add_sentences(self, project: Project, number: int) -> None:
        """Choose the sentences of a round, unless an earlier run has."""
        missing = self._target(number) - len(project.documents)
        if missing <= 0:
            return
        student = self._train_student(project) if number > 1 else None
        try:
            chosen = self._select(missing, list(project.documents.values()), model=student)
        except DataError:
            chosen = []  # the texts have no other sentences
        project.add_documents(one.document for one in chosen)

    def _train_student(self, project: Project) -> Any:
        """Train a student with the labels so far, and return it; None if that is not possible."""
        if missing := missing_for_torch():
            self._tell(f"{' and '.join(missing)} are missing, so further sentences are chosen without a student")
            return None
        self._tell(f"training a student with {len(project.done(TEACHER)):,} sentences to choose the next ones")
        learner = Learner(project)
        try:
            learner.start()
            while not learner.wait(0.5):
                pass
        except CascadeError as error:
            self._tell(f"no student ({error.problem}); further sentences are chosen without one")
            return None
        finally:
            learner.close()
        model, status = current_model(project), learner.status()
        if status["state"] != DONE or model is None:
            self._tell(f"no student ({status['message']}); further sentences are chosen without one")
            return None
        from cascade_srn.extractor import Extractor

        return Extractor.from_pretrained(model)

    def questions(self, document: Document) -> list[Question]:
        """Return all questions about a sentence."""
        settings = self.settings
        return make_questions(
            document.id, document.text, self.labels, self._prompts, settings.samples, settings.temperature
        )

    def open_questions(self, documents: Iterable[Document], ledger: Ledger) -> list[Question]:
        """Return the questions that have no stored answer."""
        return [one for document in documents for one in self.questions(document) if ledger.get(one) is None]

    def _ask(self, project: Project, ledger: Ledger, endpoint: Endpoint, progress: Callable[[int, int], None]) -> None:
        """Ask all questions without an answer in several threads. Answers under way are waited for."""
        questions = self.open_questions(project.documents.values(), ledger)
        crew = _Crew(questions, ledger, endpoint, min(self.settings.parallel, len(questions)))
        n_done, n_failed = 0, 0
        problem: BaseException | None = None
        for question, result in crew.results():
            if isinstance(result, QuestionFailed):
                self._tell(str(result))
                n_failed += 1
                # A server that has never answered is given up sooner.
                if problem is None and n_failed >= (_MAX_FAILURES if n_done else self.settings.parallel):
                    reason = str(result).partition(": ")[2]
                    problem = EndpointError(
                        f"{n_failed} questions in a row have no answer ({reason})", "Run the command again later"
                    )
                    endpoint.stopping.set()
            elif isinstance(result, BaseException):
                problem = problem or result
            else:
                n_failed, n_done = 0, n_done + 1
                if found := self._read(result, project.documents[question.document]).problem:
                    self._tell(f"{question.document}, answer {question.sample + 1}: {found}")
            progress(n_done, len(questions))
        if problem is not None:
            raise problem

    def write(self, project: Project, ledger: Ledger) -> None:
        """Write the labels, suggestions and order of the project, and the numbers of the summary."""
        taught = {id: one for id, document in project.documents.items() if (one := self._teach(document, ledger))}
        annotations = {}
        for id, one in taught.items():
            if one.labelled is not None:
                made = self._annotation(one, ledger.model)
                stored = project.annotation(id, TEACHER)
                if replace(stored, version=0) != made:
                    annotations[id] = made
        project.save_all(annotations, TEACHER)
        (project.folder / SUGGESTIONS).mkdir(exist_ok=True)
        with replacing(project.folder / SUGGESTIONS / TEACHER_SUGGESTIONS) as handle:
            handle.writelines(suggestion_line(one.suggested) for one in taught.values())
        highest = 1 + max((one.doubt for one in taught.values()), default=0)
        # Sentences without any label come first.
        doubts = {id: highest if one.labelled is None else one.doubt for id, one in taught.items()}
        write_priorities(project.folder, {id: doubt / highest for id, doubt in doubts.items()})
        write_text(project.folder / TEACHING / SUMMARY, f"{to_json(self._count(taught, project, ledger))}\n")

    def _teach(self, document: Document, ledger: Ledger) -> Taught | None:
        records = [record for question in self.questions(document) if (record := ledger.get(question))]
        if not records:
            return None
        settings, schema = self.settings, self.labels.schema
        answers = [self._read(record, document) for record in records]
        return combine(document, answers, schema, n_samples=settings.samples, min_share=settings.agreement)

    def _read(self, record: Mapping[str, Any], document: Document) -> Answer:
        answer = read_answer(record["content"], document, self.labels.schema)
        return replace(answer, problem=record["problem"]) if answer.problem and record["problem"] else answer

    def _annotation(self, taught: Taught, model: str) -> Annotation:
        assert taught.labelled is not None
        made = annotation_of(taught.labelled, symmetric=self.labels.schema.symmetric)
        entities = tuple(replace(one, origin=TEACHER) for one in made.entities)
        relations = tuple(replace(one, origin=TEACHER) for one in made.relations)
        share = "" if taught.agreement is None else f", agreement of the answers {taught.agreement:.2f}"
        return replace(made, entities=entities, relations=relations, note=f"{model}{share}")

    def _count(self, taught: Mapping[str, Taught], project: Project, ledger: Ledger) -> dict[str, Any]:
        labelled = [one.labelled for one in taught.values() if one.labelled is not None]
        agreements = [one.agreement for one in taught.values() if one.agreement is not None]
        spent = ledger.spent
        return {
            "model": ledger.model,
            "sentences": len(project.documents),
            "labelled": len(labelled),
            "entities": sum(len(one.entities) for one in labelled),
            "relations": sum(len(one.relations) for one in labelled),
            "answers": spent.n_answers,
            "dropped": dict(sum((one.dropped for one in taught.values()), Counter())),
            "problems": dict(Counter(problem for one in taught.values() for problem in one.problems)),
            "agreement": sum(agreements) / len(agreements) if agreements else None,
            "compared": len(agreements),
            "tokens": list(spent.tokens),
            "cost": spent.cost if ledger.budget.prices or spent.cost else None,
            "open": [spent.n_open, spent.open_tokens, spent.open_cost],
        }


class _Crew:
    """Threads that ask questions and store the answers. They end with the process, also in the middle of a request."""

    def __init__(self, questions: Iterable[Question], ledger: Ledger, endpoint: Endpoint, n_threads: int) -> None:
        self._ledger, self._endpoint = ledger, endpoint
        self._rest, self._lock = iter(questions), threading.Lock()
        self._results: queue.Queue[tuple[Question, Any] | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n_threads)]

    def results(self) -> Iterator[tuple[Question, Any]]:
        """Yield each question with its stored answer, or with an exception. The first Ctrl-C ends it in good order."""
        interrupted: BaseException | None = None
        for thread in self._threads:
            thread.start()
        n_running = len(self._threads)
        while n_running:
            try:
                found = self._results.get()
            except (KeyboardInterrupt, SystemExit) as error:
                if interrupted is not None:
                    raise
                interrupted = error
                self._endpoint.stopping.set()
                continue
            if found is None:
                n_running -= 1
            else:
                yield found
        if interrupted is not None:
            raise interrupted

    def _work(self) -> None:
        while not self._endpoint.stopping.is_set():
            with self._lock:
                question = next(self._rest, None)
            if question is None:
                break
            try:
                reply = self._endpoint.ask(
                    question, partial(self._ledger.reserve, question), partial(self._ledger.release, question)
                )
                self._results.put((question, self._ledger.store(question, reply)))
            except QuestionFailed as error:
                self._results.put((question, error))
            except Stopped:
                break
            except BaseException as error:
                self._endpoint.stopping.set()
                self._results.put((question, error))
                break
        self._results.put(None)
