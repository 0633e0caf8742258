"""Prepare a distillation: the recipe of the student, the labels and the scores of the teachers."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from cascade_srn.config import FRESH
from cascade_srn.encoder.pretrained import load_tokenizer, require_encoder
from cascade_srn.evaluation.scores import score
from cascade_srn.formats.registry import read_documents
from cascade_srn.network.examples import examples_of
from cascade_srn.runs.environment import shareable
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import check_teacher_schema, read_corpus
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.labelling import Labelling, predict
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import LABELS, TEACHER, RunFolder
from cascade_srn.training.series import Seeds


def student_overrides(output: str | Path, encoder: str | None, changes: Sequence[str] = ()) -> list[str]:
    """Return the changes of a recipe, as ``key=value``, for a student whose run and labels are in ``output``."""
    values = {"data.labels": str(Path(output) / LABELS), "output": str(output)}
    if encoder is not None:
        values["model.encoder.name"] = encoder
    # JSON is valid YAML for all characters of a path.
    return [*changes, *(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items())]


class Distillation:
    """Labels text for a student, and scores the teachers on the data of the student.

    Data, labels, encoder and folder are checked before anything is labelled, so that the training does not fail later.
    The folder is locked until :meth:`close`. ``data.labels`` of the recipe is the folder of the labels. ``holdout`` is
    in addition to dev and test of the recipe. Other arguments: see :class:`~.labelling.Labelling`.
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
    ) -> None:
        self.recipe = recipe
        with ExitStack() as held:
            self._check_folder(held, n_seeds, make_accelerator(device), resume=resume, overwrite=overwrite)
            if recipe.model.encoder.name != FRESH and recipe.model.start is None:
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
                check=lambda schema: check_teacher_schema(schema, self.corpus.schema, data),
            )
            self._held = held.pop_all()

    def _check_folder(
        self, held: ExitStack, n_seeds: int | None, processes: Accelerator, *, resume: bool, overwrite: bool
    ) -> None:
        """Refuse a folder that the runs cannot write to, and lock it."""
        if n_seeds is not None:
            series = Seeds(self.recipe, n_seeds, processes=processes, resume=resume, overwrite=overwrite)
            held.callback(series.release)
        elif processes.is_main_process:
            folder = RunFolder(self.recipe.output)
            held.enter_context(folder.lock())
            folder.check(self.recipe, resume=resume, overwrite=overwrite)

    def close(self) -> None:
        """Unlock the folder."""
        self._held.close()

    def teacher_scores(self) -> dict[str, Any]:
        """Return the scores of the ensemble on dev and test, in the form of a run summary."""
        ensemble = self.labelling.ensemble
        found = {}
        for split, documents in (("dev", self.corpus.dev), ("test", self.corpus.test)):
            if documents:
                examples = examples_of(documents, ensemble.context_words)
                gold = [example.sentence for example in examples]
                found[split] = score(gold, predict(ensemble, examples), schema=ensemble.schema).to_dict()
        return found

    def write_scores(self, scores: dict[str, Any]) -> None:
        """Write ``teacher.json`` after the runs."""
        described = {"teachers": [str(teacher) for teacher in self.labelling.teachers], **scores}
        RunFolder(self.recipe.output).write_json(TEACHER, shareable(described))
