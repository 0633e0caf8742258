"""The output folder of an adaptation, and the state to resume from."""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.runs.folder import LAST, LOG, SUMMARY, OutputFolder, differences, remove
from cascade_srn.runs.process import seed_everything
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.training.adapt.loop import AdaptLoop
from cascade_srn.training.adapt.network import MaskedNetwork
from cascade_srn.training.adapt.settings import AdaptSettings
from cascade_srn.training.checkpoint import (
    Tensors,
    below,
    optimiser_tensors,
    random_tensors,
    read_state,
    require_like,
    require_step,
    restore_optimiser,
    restore_random,
    write_state,
)


def save_state(loop: AdaptLoop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes.
    """
    own = random.getstate(), random_tensors(loop.device)
    everywhere = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors: Tensors = {f"weights.{name}": parameter for name, parameter in loop.network.named_parameters()}
    tensors |= optimiser_tensors(loop.network, loop.optimiser)
    for process, (_, found) in enumerate(everywhere):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    values = {"step": loop.step, "seconds": loop.seconds, "python": [found for found, _ in everywhere], **more}
    write_state(folder, loop.step, tensors, values)


def load_state(loop: AdaptLoop, folder: Path) -> dict[str, Any] | None:
    """Restore a loop built from the same settings; return the values of the state, or None if there is none."""
    return read_state(folder, lambda state, tensors: _restore(loop, state, tensors))


def _restore(loop: AdaptLoop, state: dict[str, Any], tensors: Tensors) -> None:
    weights = below(tensors, "weights")
    require_like(weights, dict(loop.network.named_parameters()), "weight")
    with torch.no_grad():
        for name, parameter in loop.network.named_parameters():
            parameter.copy_(weights[name])
    restore_optimiser(loop.network, loop.optimiser, tensors)
    require_step(state["step"], loop.n_steps)
    loop.go_to(state["step"], seconds=float(state["seconds"]))
    process = loop.accelerator.process_index
    if process < len(state["python"]):
        version, numbers, gauss = state["python"][process]
        random.setstate((version, tuple(numbers), gauss))
        restore_random(loop.device, below(tensors, f"random.{process}"))
    else:
        # With more processes than before, the new ones begin from their seeds.
        seed_everything(loop.settings.seed + process)


RECORD = "adapt.json"
# Identifies an encoder folder.
CONFIG = "config.json"
_UNPUBLISHED = ".encoder.tmp"


class AdaptFolder(OutputFolder):
    """The folder of one adaptation, identified by its ``adapt.json``.

    It holds the log and the state to resume from. At the end the encoder is written to it, its ``config.json`` last,
    and then ``summary.json``.
    """

    marker = RECORD
    finished_by = (SUMMARY, CONFIG)
    kind = "an adapted encoder"

    def is_own(self, member: Path) -> bool:
        """Return whether a file or folder was written by the adaptation."""
        return member.name in (LAST, LOG, SUMMARY, *self._published()) or self.is_temporary(member)

    def refuse_sources(self, encoder: str, texts: Sequence[str | Path]) -> None:
        """Refuse an output folder that is also read from."""
        output = Path(os.path.realpath(self.path))
        if output == Path(os.path.realpath(encoder)):
            raise ConfigError(
                f"output and encoder are both {str(self.path)!r}", "Choose another output folder", option="output"
            )
        for text in texts:
            source = Path(os.path.realpath(text))
            if source.is_dir() and output.is_relative_to(source):
                raise ConfigError(
                    f"the output folder {str(self.path)!r} is inside {str(text)!r}, which is read as text",
                    "Choose another output folder",
                    option="output",
                )

    def check(self, settings: AdaptSettings, *, resume: bool = False, overwrite: bool = False) -> None:
        """Refuse a folder that must not or cannot be written to. Nothing in it is changed."""
        self.check_options(resume=resume, overwrite=overwrite)
        if self.is_begun and resume:
            for key, old, new in differences(self._record()["settings"], settings.to_dict()):
                raise ConfigError(
                    f"the adaptation in {str(self.path)!r} was started with {key}={old!r} and cannot be resumed with "
                    f"{key}={new!r}",
                    "Resume it with the same settings, or choose another output folder",
                    option="output",
                )
        self.check_writable(resume=resume, overwrite=overwrite)

    def refuse_other_text(self, sha256: str) -> None:
        """Refuse text whose checksum differs from that of the text the adaptation was started with."""
        if self.is_begun and self._record()["sha256"] != sha256:
            raise DataError(
                f"the text is not the text that the adaptation in {str(self.path)!r} was started with",
                "Resume with the same text, field and holdout, or start over",
                option="overwrite",
            )

    def begin(self, settings: AdaptSettings, sha256: str, *, overwrite: bool = False) -> None:
        """Prepare a folder that passed :meth:`check`, and write ``adapt.json``."""
        if not overwrite:
            self.refuse_other_text(sha256)
        self.prepare(overwrite=overwrite)
        self.write_json(RECORD, {"settings": settings.to_dict(), "sha256": sha256})

    def publish(self, network: MaskedNetwork, *, encoder: str) -> None:
        """Write the encoder to a temporary folder and move its files to their place, ``config.json`` last."""
        made = self.path / _UNPUBLISHED
        with self.writing():
            if made.exists():
                remove(made)
            made.mkdir()
            network.save(made, encoder=encoder)
            self.write_json(RECORD, {**self._record(), "files": sorted(os.listdir(made))})
            for member in sorted(made.iterdir(), key=lambda path: path.name == CONFIG):
                replace_durably(member, self.path / member.name)
            made.rmdir()

    def _published(self) -> list[str]:
        """Return the names of the files of the encoder that was written to this folder."""
        try:
            return list(self._record().get("files", ())) if self.is_begun else []
        except DataError:
            # The record is damaged, and overwriting replaces it.
            return []

    def _record(self) -> dict[str, Any]:
        record = self.read_json(RECORD) or {}
        files = record.get("files", [])
        is_valid = isinstance(record.get("settings"), dict) and isinstance(record.get("sha256"), str)
        if not is_valid or not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise self.damaged(RECORD, "it does not describe an adaptation")
        return record

    def finish(self, summary: dict[str, Any] | None = None) -> None:
        """Write the summary, if one is given, and remove the state to resume from."""
        if summary is not None:
            self.write_json(SUMMARY, summary)
        if self.last.is_dir():
            with self.writing():
                remove(self.last)
