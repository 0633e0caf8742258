"""A whole adaptation: from raw text and an encoder to a folder with the adapted one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cascade_srn.adapt.folder import AdaptFolder, load_state, save_state
from cascade_srn.adapt.loop import AdaptLoop
from cascade_srn.adapt.network import Masking, load_network
from cascade_srn.adapt.packing import HeldOutSentences, Packed, pack
from cascade_srn.adapt.settings import AdaptProgress, AdaptSettings
from cascade_srn.data.raw_text import find_files, read_texts
from cascade_srn.encoder.pieces import piece_limit
from cascade_srn.encoder.pretrained import load_tokenizer
from cascade_srn.errors import ConfigError
from cascade_srn.runs.device import find_device
from cascade_srn.runs.environment import command_line, environment, shareable
from cascade_srn.runs.process import make_accelerator


class Adaptation:
    """One adaptation. Iterate over it to adapt; then ``output`` is an encoder folder, ``summary.json`` beside it.

    Raises what is wrong with the text, the encoder, the settings or the folder before the first step is taken.
    Under ``accelerate launch`` every process makes the same one, and the main one writes. Until it is finished or
    forgotten, no other process can write into its folder.

    Args:
        texts: files and folders of raw text, as docs/adapt.md lists them.
        settings: the encoder to start from, and how to adapt it.
        output: the folder to write to.
        holdout: files of annotated documents whose sentences must not be learned from.
        resume, overwrite: go on with what was begun in ``output``, or replace it.
        on_documents, on_step: told how many documents were read, and the steps.
    """

    def __init__(
        self,
        texts: Sequence[str | Path],
        settings: AdaptSettings,
        output: str | Path,
        *,
        holdout: Sequence[str | Path] = (),
        resume: bool = False,
        overwrite: bool = False,
        device: str = "auto",
        command: str | None = None,
        on_documents: Callable[[int], None] = lambda count: None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.settings, self.texts, self.holdout = settings, list(texts), list(holdout)
        self.command = command_line() if command is None else command
        self.folder = AdaptFolder(output)
        self.accelerator = make_accelerator(device)
        self.is_main = self.accelerator.is_main_process
        self.device = self.accelerator.device if self.accelerator.num_processes > 1 else find_device(device)
        with ExitStack() as held:
            if self.is_main:
                held.enter_context(self.folder.lock(settings, texts))
                self.folder.check(settings, texts, resume=resume, overwrite=overwrite)
            self._prepare(on_documents, on_step)
            if self.is_main:
                self.folder.begin(settings, self.packed.sha256, overwrite=overwrite)
            self.accelerator.wait_for_everyone()
            state = load_state(self.loop, self.folder.last)
            self.resumed_at = None if state is None else self.loop.step
            if self.is_main:
                if state is not None:
                    self.folder.files.check_log(state.get("log_bytes"))
                self.folder.files.cut_log(0 if state is None else state["log_bytes"])
            self._held = held.pop_all()

    def _prepare(self, on_documents: Callable[[int], None], on_step: Callable[[int], None]) -> None:
        """Text, encoder and loop."""
        settings = self.settings
        files = find_files(self.texts)
        tokenizer = load_tokenizer(settings.encoder)
        network = load_network(settings.encoder, seed=settings.seed)
        self.new_head = network.new_head
        _check_length(settings, piece_limit(network.model.config, tokenizer))
        self.removed = HeldOutSentences.read(self.holdout) if self.holdout else None
        self.packed = _packed(files, settings, tokenizer, self.removed, on_documents)
        network.to(self.device)
        masking = Masking(tokenizer, share=settings.masked)
        self.loop = AdaptLoop(network, self.packed, masking, settings, accelerator=self.accelerator, on_step=on_step)

    def __iter__(self) -> Iterator[AdaptProgress]:
        for progress in self.loop:
            saving = progress.save and not progress.finished
            log_bytes = self.folder.files.log(progress.to_dict(), durable=saving) if self.is_main else 0
            if saving:
                with self.folder.files.writing():
                    save_state(self.loop, self.folder.last, log_bytes=log_bytes)
            yield progress
        if self.is_main:
            self.folder.publish(self.loop.network, encoder=self.settings.encoder)
            self.folder.finish(shareable(self._summary()))
        self._held.close()
        self.accelerator.wait_for_everyone()

    @property
    def counts(self) -> dict[str, int]:
        """What the text came to."""
        return {
            "documents": self.packed.n_documents,
            "held_out_documents": self.packed.n_held_out_documents,
            "pieces": self.packed.n_pieces,
            "sequences": len(self.packed.train),
            "held_out_sequences": len(self.packed.held_out),
            "removed_sentences": 0 if self.removed is None else self.removed.n_removed,
        }

    def _summary(self) -> dict[str, Any]:
        measured = [line for line in self.folder.files.read_log() if "perplexity" in line]
        # What a head knows that has learned nothing yet says nothing about the encoder.
        measured = [line for line in measured if line["step"] >= self.loop.n_head_steps]
        between = [{"step": line["step"], "perplexity": line["perplexity"]} for line in measured[1:-1]]
        return {
            "command": self.command,
            "settings": self.settings.to_dict(),
            "texts": [str(text) for text in self.texts],
            "holdout": [str(path) for path in self.holdout],
            "new_head": self.new_head,
            "head_steps": self.loop.n_head_steps,
            **self.counts,
            "perplexity": {
                "before": measured[0]["perplexity"],
                "during": between,
                "after": measured[-1]["perplexity"],
            },
            "steps": self.loop.step,
            "seconds": round(self.loop.seconds, 1),
            "environment": environment(self.device, n_processes=self.accelerator.num_processes),
        }


def check_finished(
    texts: Sequence[str | Path],
    settings: AdaptSettings,
    output: str | Path,
    *,
    holdout: Sequence[str | Path] = (),
    overwrite: bool = False,
) -> None:
    """Refuse to go on with a finished adaptation of other text, or by other settings, as with one that is not finished.

    Where all is the same there is nothing to do, but for a state that was left when the process was killed at the end.
    """
    folder = AdaptFolder(output)
    with folder.lock(settings, texts):
        folder.check(settings, texts, resume=True, overwrite=overwrite)
        removed = HeldOutSentences.read(holdout) if holdout else None
        packed = _packed(find_files(texts), settings, load_tokenizer(settings.encoder), removed)
        folder.refuse_other_text(packed.sha256)
        folder.finish()


def _packed(
    files: Sequence[Path],
    settings: AdaptSettings,
    tokenizer: Any,
    removed: HeldOutSentences | None,
    on_documents: Callable[[int], None] = lambda count: None,
) -> Packed:
    texts: Iterator[str] = read_texts(files, field=settings.field)
    if removed is not None:
        texts = map(removed.without, texts)
    return pack(
        texts, tokenizer, n_pieces=settings.sequence_pieces, held_out=settings.held_out, on_documents=on_documents
    )


def _check_length(settings: AdaptSettings, limit: int) -> None:
    if settings.sequence_pieces > limit:
        raise ConfigError(
            f"sequence_pieces is {settings.sequence_pieces}, but the encoder {settings.encoder!r} takes {limit} pieces "
            f"at once; give --sequence-pieces {limit} or fewer"
        )
