"""A whole distillation up to training: the recipe of the student, the labels, and what the teachers reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from cascade_srn.config import FRESH
from cascade_srn.data import read_documents
from cascade_srn.data.examples import examples_of
from cascade_srn.distil.labelling import Labelling, predict
from cascade_srn.distil.settings import LabelSettings
from cascade_srn.encoder.pretrained import load_tokenizer, require_encoder
from cascade_srn.evaluation.scores import score
from cascade_srn.runs.environment import shareable
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import read_corpus, teachers_schema
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import LABELS, TEACHER, RunFolder
from cascade_srn.training.seeds import Seeds


def student_overrides(output: str | Path, encoder: str | None, changes: Sequence[str] = ()) -> list[str]:
    """What a recipe is changed by, as ``key=value``, for a student whose run and labels are in a folder."""
    values = {"data.labels": str(Path(output) / LABELS), "output": str(output)}
    if encoder is not None:
        values["model.encoder.name"] = encoder
    # JSON is YAML, whatever characters a path has.
    return [*changes, *(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items())]


class Distillation:
    """Everything that comes before the student's training, and what the teachers reach on its data.

    Refuses before anything is labelled what would stop the training afterwards: data, labels, encoder, folder. Until it
    is closed or forgotten, no other process can write into the folder.

    Args:
        teachers, texts: as of :class:`~cascade_srn.distil.labelling.Labelling`.
        recipe: that of the student, its ``data.labels`` being where the labels go.
        holdout: files of annotated documents that are held out beside the recipe's dev and test.
        n_seeds: how many runs there will be; None: one, in the folder itself.
    """

    def __init__(
        self,
        teachers: Sequence[str | Path],
        texts: Sequence[str | Path],
        recipe: Recipe,
        settings: LabelSettings | None = None,
        *,
        holdout: Sequence[str | Path] = (),
        n_seeds: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
        device: str = "auto",
        on_documents: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.recipe = recipe
        with ExitStack() as held:
            self._check_folder(held, n_seeds, make_accelerator(device), resume=resume, overwrite=overwrite)
            if recipe.model.encoder.name != FRESH:
                require_encoder(recipe.model.encoder.name)
                load_tokenizer(recipe.model.encoder.name)
            data = replace(recipe.data, labels=None)
            self.corpus = read_corpus(data)
            more = [document for path in holdout for document in read_documents(path)]
            self.labelling = Labelling(
                teachers,
                texts,
                str(recipe.data.labels),
                settings,
                holdout=[*self.corpus.dev, *self.corpus.test, *more],
                resume=resume,
                overwrite=overwrite,
                device=device,
                on_documents=on_documents,
                check=lambda schema: teachers_schema(schema, self.corpus.schema, data),
            )
            self._held = held.pop_all()

    def _check_folder(
        self, held: ExitStack, n_seeds: int | None, processes: Accelerator, *, resume: bool, overwrite: bool
    ) -> None:
        """Refuse a folder that the runs will not be able to go to, and hold it."""
        if n_seeds is not None:
            series = Seeds(self.recipe, n_seeds, processes=processes, resume=resume, overwrite=overwrite)
            held.callback(series.release)
        elif processes.is_main_process:
            folder = RunFolder(self.recipe.output)
            held.enter_context(folder.lock())
            folder.check(self.recipe, resume=resume, overwrite=overwrite)

    def close(self) -> None:
        """Let other processes write into the folder."""
        self._held.close()

    def teacher_scores(self) -> dict[str, Any]:
        """Scores of the teachers together on dev and test, as a run's summary has them."""
        ensemble = self.labelling.ensemble
        found = {}
        for split, documents in (("dev", self.corpus.dev), ("test", self.corpus.test)):
            if documents:
                examples = examples_of(documents, ensemble.context_words)
                gold = [example.sentence for example in examples]
                found[split] = score(gold, predict(ensemble, examples), schema=ensemble.schema).to_dict()
        return found

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Write ``teacher.json``, once the runs are there."""
        described = {"teachers": [str(teacher) for teacher in self.labelling.teachers], **scores}
        RunFolder(self.recipe.output).write_json(TEACHER, shareable(described))
