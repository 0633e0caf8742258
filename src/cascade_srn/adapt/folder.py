"""The folder of an adaptation, which is an encoder folder in the end."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object

from cascade_srn.adapt.loop import AdaptLoop
from cascade_srn.adapt.network import MaskedNetwork
from cascade_srn.adapt.settings import AdaptSettings
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.runs.process import seed_everything
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.storage.folders import try_writing
from cascade_srn.storage.lock import LOCK, FolderLock
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
from cascade_srn.training.run_folder import LOG, SUMMARY, RunFolder, differences


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


RECORD, LAST = "adapt.json", "last"
# By which an encoder is known.
CONFIG = "config.json"
_MADE = ".encoder.tmp"


class AdaptFolder:
    """The folder of one adaptation, known by its ``adapt.json``, which is written first.

    Until the end it holds the log and the state to resume from; then the encoder, its ``config.json`` last, and
    ``summary.json``. ``files`` reads and writes single files, each replaced as a whole.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.files = RunFolder(path)

    @property
    def last(self) -> Path:
        """The state to resume from."""
        return self.path / LAST

    @property
    def is_begun(self) -> bool:
        """Whether an adaptation was begun here."""
        return (self.path / RECORD).is_file()

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end."""
        return self.files.is_finished

    def lock(self, settings: AdaptSettings, texts: Sequence[str | Path]) -> FolderLock:
        """Keep other processes out, before anything else is done; what must not be written to at all is refused."""
        self._refuse_sources(settings.encoder, texts)
        self._refuse_other_things()
        with self.files.writing():
            return FolderLock(self.path)

    def check(
        self, settings: AdaptSettings, texts: Sequence[str | Path], *, resume: bool = False, overwrite: bool = False
    ) -> None:
        """Refuse in one sentence a folder that must not or cannot be written to; nothing in it is changed."""
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite were both given; choose whether to go on or to start over")
        self._refuse_sources(settings.encoder, texts)
        self._refuse_other_things()
        if self.is_begun and resume:
            self._refuse_other(settings)
        elif self.is_begun and not overwrite:
            raise ConfigError(
                f"there is an adapted encoder in {str(self.path)!r} already, or the beginning of one; go on with it by "
                "--resume, replace it by --overwrite, or give another folder"
            )
        with self.files.writing():
            try_writing(self.path)

    def _refuse_other_things(self) -> None:
        """What is there and is no adaptation is somebody else's."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"--output is {str(self.path)!r}, which is a file; give the name of a folder to write to")
        others = [member.name for member in self._contents() if not _is_temporary(member)]
        if others and not self.is_begun:
            raise ConfigError(
                f"--output is {str(self.path)!r}, which holds something else than an adapted encoder ({others[0]!r}, "
                "for one); give an empty or a new folder"
            )

    def _refuse_sources(self, encoder: str, texts: Sequence[str | Path]) -> None:
        """What is read must not be where it is written to."""
        output = Path(os.path.realpath(self.path))
        if output == Path(os.path.realpath(encoder)):
            raise ConfigError(f"--output and --encoder are both {str(self.path)!r}; give another folder to write to")
        for text in texts:
            source = Path(os.path.realpath(text))
            if source.is_dir() and output.is_relative_to(source):
                raise ConfigError(
                    f"--output {str(self.path)!r} is in {str(text)!r}, all of which is read as text; give a folder "
                    "elsewhere"
                )

    def _refuse_other(self, settings: AdaptSettings) -> None:
        """Resuming is going on with the same settings."""
        for key, old, new in differences(self._record()["settings"], settings.to_dict()):
            raise ConfigError(
                f"the adaptation in {str(self.path)!r} was started with {key}={old!r}, and is to be resumed with "
                f"{key}={new!r}; resume it with the settings it was started with, or give another --output"
            )

    def refuse_other_text(self, sha256: str) -> None:
        """Refuse text, known by a checksum, that is not what the adaptation was started with."""
        if self.is_begun and self._record()["sha256"] != sha256:
            raise DataError(
                f"the text is not the one that the adaptation in {str(self.path)!r} was started with; resume with "
                "the same files, --field and --holdout, or start over with --overwrite"
            )

    def begin(self, settings: AdaptSettings, sha256: str, *, overwrite: bool = False) -> None:
        """Make a folder that passed :meth:`check` ready; text that is not what it was is refused."""
        if not overwrite:
            self.refuse_other_text(sha256)
        with self.files.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            written = {LAST, LOG, SUMMARY, *self._published()}
            # What is broken off must not be taken for finished, nor what is left of an encoder for one.
            known_by = (SUMMARY, CONFIG)
            for member in sorted(self._contents(), key=lambda path: path.name not in known_by):
                if _is_temporary(member) or (overwrite and member.name in written):
                    _remove(member)
            for member in self.last.iterdir() if self.last.is_dir() else ():
                if _is_temporary(member):
                    _remove(member)
        self.files.write_json(RECORD, {"settings": settings.to_dict(), "sha256": sha256})

    def publish(self, network: MaskedNetwork, *, encoder: str) -> None:
        """Write the encoder: beside its place first, and ``config.json``, by which it is known, last."""
        made = self.path / _MADE
        with self.files.writing():
            if made.exists():
                _remove(made)
            made.mkdir()
            network.save(made, encoder=encoder)
            self.files.write_json(RECORD, {**self._record(), "files": sorted(os.listdir(made))})
            for member in sorted(made.iterdir(), key=lambda path: path.name == CONFIG):
                replace_durably(member, self.path / member.name)
            made.rmdir()

    def _published(self) -> list[str]:
        """Return the names of the files of an encoder that was written here before; other files stay."""
        try:
            return list(self._record().get("files", ())) if self.is_begun else []
        except DataError:
            # Only --overwrite comes here with a damaged record, and begins a new one.
            return []

    def _record(self) -> dict[str, Any]:
        """Read ``adapt.json``.

        Raises:
            DataError: if it is damaged.
        """
        record = self.files.read_json(RECORD) or {}
        files = record.get("files", [])
        whole = isinstance(record.get("settings"), dict) and isinstance(record.get("sha256"), str)
        if not whole or not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise DataError(
                f"{str(self.path / RECORD)!r} does not describe an adaptation. Restore it from a copy, or start over "
                "with --overwrite."
            )
        return record

    def finish(self, summary: dict[str, Any] | None = None) -> None:
        """Write how it went, if it is not yet written, and remove the state, which nothing will resume from."""
        if summary is not None:
            self.files.write_json(SUMMARY, summary)
        if self.last.is_dir():
            with self.files.writing():
                shutil.rmtree(self.last)

    def _contents(self) -> list[Path]:
        members = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [member for member in members if member.name != LOCK]


def _is_temporary(member: Path) -> bool:
    return member.name.startswith(".") and member.name.endswith(".tmp")


def _remove(member: Path) -> None:
    shutil.rmtree(member) if member.is_dir() and not member.is_symlink() else member.unlink()
