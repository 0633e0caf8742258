"""A saved model with other temperatures and thresholds: those that suit given documents."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cascade_srn.calibration.choose import calibrate
from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.data.alignment import Align
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.data.formats import read_documents
from cascade_srn.data.reports import ReadReport
from cascade_srn.errors import DataError, ModelError
from cascade_srn.evaluation.evaluate import check_labels
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.model.model import CARD_FILE, CONFIG_FILE, Model
from cascade_srn.storage.bundled import find_model
from cascade_srn.storage.folders import replacing_folder

# For the card: scores that stand there are those of other thresholds.
NOTICE = "Thresholds and temperatures were chosen anew by `cascade-srn calibrate`; figures above are from before."


@dataclass(frozen=True)
class Recalibrated:
    """What was chosen, and the scores on the documents that it was chosen on, before and after."""

    thresholds: Thresholds
    temperatures: Temperatures
    before: Scores
    after: Scores

    @property
    def changed(self) -> bool:
        """Whether anything else was chosen than what the model had."""
        return self.before is not self.after


def recalibrate(
    model: str,
    data: str,
    output: Path,
    *,
    format: str | None = None,
    align: Align = "exact",
    by_label: bool = False,
    device: torch.device | str = "cpu",
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> Recalibrated:
    """Write a model to ``output``, which may be its own folder, with what suits the documents of ``data``.

    The weights are not touched, and are stored as they were. ``format`` and ``align`` are of the data. Documents that
    the model was trained on would make it look surer than it is: give others. ``on_read`` is told how reading went.
    """
    folder = find_model(model)
    if output.is_dir() and any(output.iterdir()) and not os.path.samefile(output, folder):
        raise ModelError(
            f"--output is {str(output)!r}, which is there already and is not the model's own folder; give a new one, "
            "or the model's own to have it replaced"
        )
    stream = read_documents(data, format=format, align=align)
    documents = list(stream)
    on_read(stream.report)
    if not stream.report.entities:
        raise DataError(f"{data!r} holds no entity, so that there is nothing to choose by; give annotated documents")
    loaded = Model.load(folder)
    check_labels(loaded.schema, documents, model=model, data=data)
    loaded.network.to(device)
    # The folder first: whether it can be written to is to be known before the work.
    with replacing_folder(output, marker=CONFIG_FILE, key="cascade_srn_version") as target:
        shutil.copytree(folder, target, dirs_exist_ok=True)
        found = _recalibrated(loaded, examples_of(documents, loaded.settings.encoder.context_words), by_label)
        if found.changed:
            _write(target, found)
    return found


def _recalibrated(model: Model, examples: Sequence[Example], by_label: bool) -> Recalibrated:
    gold = [example.sentence for example in examples]
    before = after = score(gold, model.predictor().predict(examples), schema=model.schema)
    chosen = calibrate(model, examples, by_label=by_label)
    if chosen.settings != model.settings:
        after = score(gold, chosen.predictor().predict(examples), schema=model.schema)
    return Recalibrated(chosen.settings.thresholds, chosen.settings.temperatures, before, after)


def _write(folder: Path, found: Recalibrated) -> None:
    """What was chosen, into the configuration of a model, and a word about it into its card."""
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config["model"] |= {"thresholds": found.thresholds.to_dict(), "temperatures": found.temperatures.to_dict()}
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    card = folder / CARD_FILE
    if card.is_file() and NOTICE not in (told := card.read_text(encoding="utf-8")):
        card.write_text(f"{told.rstrip()}\n\n{NOTICE}\n", encoding="utf-8")
