"""A saved model with other temperatures and thresholds: those that suit given documents."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from cascade_srn.bundled import find_model
from cascade_srn.calibrate import calibrate
from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.data.examples import examples_of
from cascade_srn.data.folders import replacing_folder, try_writing
from cascade_srn.data.formats import read_documents
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.running import check_labels
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.model import CONFIG_FILE, Model


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
    by_label: bool = False,
    device: torch.device | str = "cpu",
) -> Recalibrated:
    """Write a model to ``output``, which may be its own folder, with what suits the documents of ``data``.

    The weights are not touched, and are stored as they were. Documents that the model was trained on would make it
    look surer than it is: give others.
    """
    folder = find_model(model)
    if output.exists() and not output.is_dir():
        raise ConfigError(f"--output is {str(output)!r}, which is a file; give the name of a folder to write to")
    documents = list(read_documents(data, format=format))
    loaded = Model.load(folder)
    check_labels(loaded.schema, documents, model=model, data=data)
    try:
        try_writing(output)
    except OSError as error:
        raise ConfigError(
            f"--output is {str(output)!r}, which cannot be written to ({error.strerror}); choose another folder"
        ) from None
    loaded.cascade.to(device)
    examples = examples_of(documents, loaded.settings.encoder.context_words)
    gold = [example.sentence for example in examples]
    before = score(gold, loaded.predictor().predict(examples), schema=loaded.schema)
    chosen = calibrate(loaded, examples, by_label=by_label)
    after = before
    if chosen.settings != loaded.settings:
        after = score(gold, chosen.predictor().predict(examples), schema=loaded.schema)
    settings = chosen.settings
    _write(folder, output, settings.thresholds, settings.temperatures)
    return Recalibrated(settings.thresholds, settings.temperatures, before, after)


def _write(folder: Path, output: Path, thresholds: Thresholds, temperatures: Temperatures) -> None:
    """The files of a model, and in its configuration other thresholds and temperatures."""
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config["model"] |= {"thresholds": thresholds.to_dict(), "temperatures": temperatures.to_dict()}
    with replacing_folder(output, marker=CONFIG_FILE) as target:
        shutil.copytree(folder, target, dirs_exist_ok=True)
        (target / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
