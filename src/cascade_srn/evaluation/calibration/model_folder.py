"""Calibrate a saved model: choose temperatures, thresholds and overlaps on documents, and write them to a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from cascade_srn.config import Temperatures, Thresholds, require_range
from cascade_srn.errors import ModelError
from cascade_srn.evaluation.calibration.calibrate import calibrate, with_overlaps
from cascade_srn.evaluation.calibration.precision import measure_precision, read_review
from cascade_srn.evaluation.evaluate import check_labels, read_annotated
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.extractor import load_model
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.reports import ReadReport
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.model.folder import CARD_FILE, CONFIG_FILE, model_checksum, write_precision
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.runs.device import find_device
from cascade_srn.schema import MIN_PAIR_COUNT, Schema
from cascade_srn.storage.atomic import replacing_folder
from cascade_srn.storage.bundled import find_model

# Added to the model card, whose scores are those of the previous thresholds.
NOTICE = (
    "`cascade-srn calibrate` replaced the thresholds and temperatures. The figures above were measured before that."
)


@dataclass(frozen=True)
class CalibrationResult:
    """Chosen settings, and the scores on the calibration documents before and after.

    ``schema`` has the learned constraints, if any. ``constraints`` is "on" if they are applied.
    """

    thresholds: Thresholds
    temperatures: Temperatures
    overlaps: str
    before: Scores
    after: Scores
    schema: Schema
    constraints: str

    @property
    def changed(self) -> bool:
        """Whether the chosen settings differ from those of the model."""
        return self.before is not self.after


def calibrate_model_folder(
    model: str,
    data: str,
    output: Path,
    *,
    format: str | None = None,
    align: Align = "exact",
    by_label: bool = False,
    learn_constraints: str | None = None,
    min_pair_count: int = MIN_PAIR_COUNT,
    device: torch.device | str = "auto",
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> CalibrationResult:
    """Choose temperatures, thresholds and overlaps of a saved model, and write the model with them.

    Its precision statistics become those of the documents.

    Args:
        model: Folder, name or hub id of the model. Its weights are copied unchanged.
        data: Annotated documents. Scores are too high on documents that the model was trained on.
        output: A new or empty folder, or the folder of the model itself.
        format: Format of the data; detected if None.
        align: "exact" to reject offsets inside a word, or "expand" to extend them to whole words.
        by_label: Give each frequent label its own threshold.
        learn_constraints: Annotated documents, such as the training data, whose pairs of entity types become the
            allowed pairs of each relation type, and which show what types are exclusive. They replace those of the
            model.
        min_pair_count: Number of relations from which a pair is allowed.
        device: Device of the model. "auto": the GPU if there is one.
        on_read: Called with the report of reading each file.

    Raises:
        DataError: The data cannot be read or has no entities.
        ModelError: The model cannot be loaded, or the output folder cannot be used.
        SchemaError: The data has labels that the model does not have.
    """
    folder = find_model(model)
    _check_output(output, folder)
    require_range("min_pair_count", min_pair_count, 1, option="min_pair_count")
    documents = read_annotated(data, format, align, on_read)
    training = [] if learn_constraints is None else read_annotated(learn_constraints, format, align, on_read)
    loaded = Model.load(folder)
    check_labels(loaded.schema, documents, model=model, data=data)
    schema = loaded.schema
    if learn_constraints is not None:
        check_labels(schema, training, model=model, data=learn_constraints)
        schema = schema.learn_constraints(training, min_pair_count, again=True)
    loaded.network.to(find_device(str(device)))
    # Create the folder first, so that an unwritable folder fails before the work.
    with replacing_folder(output, marker=CONFIG_FILE, key="cascade_srn_version") as target:
        shutil.copytree(folder, target, dirs_exist_ok=True)
        examples = examples_of(documents, loaded.settings.encoder.context_words)
        found = _choose_settings(loaded, schema, examples, by_label)
        if found.changed or learn_constraints is not None:
            _write_settings(target, found)
        settings = replace(
            loaded.settings,
            thresholds=found.thresholds,
            temperatures=found.temperatures,
            overlaps=found.overlaps,
            constraints=found.constraints,
        )
        write_precision(target, measure_precision(replace(loaded, settings=settings, schema=schema), documents))
    return found


def review_model_folder(model: str, data: str, output: Path) -> PrecisionRecord:
    """Write a model with precision statistics from predictions that people marked as right or wrong.

    Args:
        model: Folder, name or hub id of the model. Nothing else of it changes.
        data: Output of ``extract`` as JSON lines, with a field ``correct`` in entities and relations.
        output: A new or empty folder, or the folder of the model itself.

    Raises:
        DataError: The file cannot be read, is of another model, or has nothing marked.
        ModelError: The model cannot be loaded, or the output folder cannot be used.
    """
    folder = find_model(model)
    _check_output(output, folder)
    record = read_review(Path(data), load_model(folder), model_checksum(folder))
    with replacing_folder(output, marker=CONFIG_FILE, key="cascade_srn_version") as target:
        shutil.copytree(folder, target, dirs_exist_ok=True)
        write_precision(target, record)
    return record


def _check_output(output: Path, folder: Path) -> None:
    if output.is_dir() and any(output.iterdir()) and not os.path.samefile(output, folder):
        raise ModelError(
            f"the folder {str(output)!r} is not empty and is not the folder of the model",
            "Choose a new folder, or the folder of the model to replace its settings",
            option="output",
        )


def _choose_settings(model: Model, schema: Schema, examples: Sequence[Example], by_label: bool) -> CalibrationResult:
    gold = [example.sentence for example in examples]
    before = after = score(gold, model.predictor().predict(examples), schema=model.schema)
    chosen = calibrate(replace(model, schema=schema), examples, by_label=by_label)
    # A model without a stored choice is flat.
    if chosen.settings != with_overlaps(model, model.overlaps).settings:
        after = score(gold, chosen.predictor().predict(examples), schema=model.schema)
    settings = chosen.settings
    return CalibrationResult(
        settings.thresholds, settings.temperatures, chosen.overlaps, before, after, schema, settings.constraints
    )


def _write_settings(folder: Path, found: CalibrationResult) -> None:
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config["model"] |= {
        "thresholds": found.thresholds.to_dict(),
        "temperatures": found.temperatures.to_dict(),
        "overlaps": found.overlaps,
        "constraints": found.constraints,
    }
    config["schema"] = found.schema.to_dict()
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    card = folder / CARD_FILE
    if card.is_file() and NOTICE not in (text := card.read_text(encoding="utf-8")):
        card.write_text(f"{text.rstrip()}\n\n{NOTICE}\n", encoding="utf-8")
