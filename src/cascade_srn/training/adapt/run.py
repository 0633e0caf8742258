"""Run an adaptation: from raw text and an encoder to the folder of the adapted encoder."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cascade_srn.encoder.pieces import piece_limit
from cascade_srn.encoder.pretrained import load_tokenizer
from cascade_srn.errors import ConfigError
from cascade_srn.inputs.texts import find_texts, read_texts
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.training.adapt.folder import AdaptFolder, load_state, save_state
from cascade_srn.training.adapt.loop import AdaptLoop
from cascade_srn.training.adapt.network import Masking, load_network
from cascade_srn.training.adapt.packing import HeldOutSentences, Packed, pack
from cascade_srn.training.adapt.settings import AdaptProgress, AdaptSettings


class Adaptation:
    """One adaptation. Iterate over it to adapt.

    At the end ``output`` is an encoder folder with a ``summary.json``. Text, encoder, settings and folder are checked
    before the first step. With ``accelerate launch`` every process makes the same object, and the main process writes.
    The folder is locked until the adaptation ends. The sentences of ``holdout``, files of annotated documents, are
    removed from the text. ``on_documents`` is called with the number of documents read so far, ``on_step`` with that of
    each step.
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
        self.folder = AdaptFolder(output)
        self.context = RunContext(device, command)
        self.accelerator, self.device = self.context.accelerator, self.context.device
        with ExitStack() as held:
            if self.context.is_main:
                self.folder.refuse_sources(settings.encoder, texts)
                held.enter_context(self.folder.lock())
                self.folder.check(settings, resume=resume, overwrite=overwrite)
            self._prepare(on_documents, on_step)
            if self.context.is_main:
                self.folder.begin(settings, self.packed.sha256, overwrite=overwrite)
            self.accelerator.wait_for_everyone()
            state = load_state(self.loop, self.folder.last)
            self.resumed_at = None if state is None else self.loop.step
            if self.context.is_main:
                self.folder.restore_log(state)
            self._held = held.pop_all()

    def _prepare(self, on_documents: Callable[[int], None], on_step: Callable[[int], None]) -> None:
        """Read the text, load the encoder and make the loop."""
        settings = self.settings
        files = find_texts(self.texts)
        tokenizer = load_tokenizer(settings.encoder)
        network = load_network(settings.encoder, seed=settings.seed)
        self.new_head = network.new_head
        limit = piece_limit(network.model.config, tokenizer)
        if settings.sequence_pieces > limit:
            raise ConfigError(
                f"sequence_pieces is {settings.sequence_pieces}, but the encoder {settings.encoder!r} reads {limit} "
                "pieces at most",
                f"Set {limit} or fewer",
                option="sequence_pieces",
            )
        self.removed = HeldOutSentences.read(self.holdout) if self.holdout else None
        self.packed = _pack(files, settings, tokenizer, self.removed, on_documents)
        network.to(self.device)
        masking = Masking(tokenizer, share=settings.masked)
        self.loop = AdaptLoop(network, self.packed, masking, settings, accelerator=self.accelerator, on_step=on_step)

    def __iter__(self) -> Iterator[AdaptProgress]:
        for progress in self.loop:
            saving = progress.save and not progress.finished
            log_bytes = self.folder.log(progress.to_dict(), durable=saving) if self.context.is_main else 0
            if saving:
                with self.folder.writing():
                    save_state(self.loop, self.folder.last, log_bytes=log_bytes)
            yield progress
        if self.context.is_main:
            self.folder.publish(self.loop.network, encoder=self.settings.encoder)
            self.folder.finish(shareable(self._summary()))
        self._held.close()
        self.accelerator.wait_for_everyone()

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of documents, pieces, sequences and removed sentences."""
        return {
            "documents": self.packed.n_documents,
            "held_out_documents": self.packed.n_held_out_documents,
            "pieces": self.packed.n_pieces,
            "sequences": len(self.packed.train),
            "held_out_sequences": len(self.packed.held_out),
            "removed_sentences": 0 if self.removed is None else self.removed.n_removed,
        }

    def _summary(self) -> dict[str, Any]:
        measured = [line for line in self.folder.read_log() if "perplexity" in line]
        # The perplexity of an untrained head says nothing about the encoder.
        measured = [line for line in measured if line["step"] >= self.loop.n_head_steps]
        between = [{"step": line["step"], "perplexity": line["perplexity"]} for line in measured[1:-1]]
        return {
            "command": self.context.command,
            "settings": self.settings.to_dict(),
            "texts": [str(text) for text in self.texts],
            "holdout": [str(path) for path in self.holdout],
            "new_head": self.new_head,
            "head_steps": self.loop.n_head_steps,
            **self.counts,
            "perplexity": {"before": measured[0]["perplexity"], "during": between, "after": measured[-1]["perplexity"]},
            "steps": self.loop.step,
            "seconds": round(self.loop.seconds, 1),
            "environment": self.context.environment(),
        }


def check_finished(
    texts: Sequence[str | Path],
    settings: AdaptSettings,
    output: str | Path,
    *,
    holdout: Sequence[str | Path] = (),
    overwrite: bool = False,
) -> None:
    """Refuse to resume a finished adaptation with other text or settings.

    Removes a state that is left if the process was killed at the end.
    """
    folder = AdaptFolder(output)
    folder.refuse_sources(settings.encoder, texts)
    with folder.lock():
        folder.check(settings, resume=True, overwrite=overwrite)
        removed = HeldOutSentences.read(holdout) if holdout else None
        packed = _pack(find_texts(texts), settings, load_tokenizer(settings.encoder), removed)
        folder.refuse_other_text(packed.sha256)
        folder.finish()


def _pack(
    files: Sequence[Path],
    settings: AdaptSettings,
    tokenizer: Any,
    removed: HeldOutSentences | None,
    on_documents: Callable[[int], None] = lambda count: None,
) -> Packed:
    texts: Iterator[str] = read_texts(files, field=settings.field)
    if removed is not None:
        texts = map(removed.remove_from, texts)
    return pack(
        texts, tokenizer, n_pieces=settings.sequence_pieces, held_out=settings.held_out, on_documents=on_documents
    )
