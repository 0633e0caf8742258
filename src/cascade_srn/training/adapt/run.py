"""Run an adaptation: from raw text and an encoder to the folder of the adapted encoder."""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, default_data_collator

from cascade_srn.encoder.pieces import piece_limit
from cascade_srn.encoder.pretrained import load_tokenizer, quiet_transformers
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.inference.batching import explain_out_of_memory
from cascade_srn.inputs.texts import find_texts, read_texts
from cascade_srn.runs.device import matmul_precision
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.runs.folder import LAST, LOG, SUMMARY, OutputFolder, differences, remove
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.training.adapt import AdaptProgress, AdaptSettings
from cascade_srn.training.adapt.network import load_network, save_network
from cascade_srn.training.adapt.text import HeldOutSentences, MaskedSequences, Masking, pack
from cascade_srn.training.loop import every
from cascade_srn.training.step import decay_groups, schedule_shape

# A new head is first trained alone, at this multiple of the learning rate.
_HEAD_RATE = 10.0
# The same words of the held-out text are masked in every run, so that perplexities are comparable.
_HELD_OUT_SEED, _HELD_OUT_BATCH = 41_003, 16
# Limit of the mean loss; the exponential of larger values overflows.
_HIGHEST = 700.0
# Processes that mask words while a GPU computes.
_N_WORKERS = 4


class Adaptation:
    """One adaptation by transformers' ``Trainer``. :meth:`run` adapts.

    At the end ``output`` is an encoder folder with a ``summary.json``. Text, encoder, settings and folder are checked
    before the first step. With ``accelerate launch`` every process makes the same object, and the main process writes.
    The folder is locked until the adaptation ends. The sentences of ``holdout``, files of annotated documents, are
    removed from the text. ``is_finished`` tells whether there is nothing to resume.
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
    ) -> None:
        self.settings, self.texts, self.holdout = settings, list(texts), list(holdout)
        self.folder, self.context = AdaptFolder(output), RunContext(device, command)
        self._refuse_unsupported()
        with ExitStack() as held:
            if self.context.is_main:
                self.folder.refuse_sources([settings.encoder, *texts])
                held.enter_context(self.folder.lock())
                self.folder.check_options(resume=resume, overwrite=overwrite)
                self.folder.check_writable(resume=resume, overwrite=overwrite)
            self._read()
            if self.context.is_main:
                self.folder.begin(settings, self.packed.sha256, overwrite=overwrite)
            PartialState().wait_for_everyone()
            self.is_finished = self.folder.is_finished
            if not self.is_finished:
                self.checkpoint = self.folder.checkpoint()
                self._held = held.pop_all()

    def _refuse_unsupported(self) -> None:
        """Refuse what the Trainer cannot do."""
        n_parts, index = self.settings.accumulation * self.context.n_processes, self.context.device.index
        if self.settings.batch_size % n_parts:
            raise ConfigError(
                f"a batch of {self.settings.batch_size} sequences cannot be split into {n_parts} equal parts",
                "Set batch_size to a multiple of accumulation and the number of processes",
                option="batch_size",
            )
        if index and self.context.n_processes == 1:
            raise ConfigError(
                f"adapt uses the first GPU, not 'cuda:{index}'",
                f"Set the environment variable CUDA_VISIBLE_DEVICES={index}",
                option="device",
            )

    def _read(self) -> None:
        """Read the text and load the encoder."""
        settings = self.settings
        files = find_texts(self.texts)
        self.tokenizer = load_tokenizer(settings.encoder)
        self.model, self.new_head = load_network(settings.encoder, seed=settings.seed)
        limit = piece_limit(self.model.config, self.tokenizer)
        if settings.sequence_pieces > limit:
            raise ConfigError(
                f"sequence_pieces is {settings.sequence_pieces}, but the encoder {settings.encoder!r} reads {limit} "
                "pieces at most",
                f"Set {limit} or fewer",
                option="sequence_pieces",
            )
        self.removed = HeldOutSentences.read(self.holdout)
        kept = map(self.removed.remove_from, read_texts(files, field=settings.field))
        self.packed = pack(kept, self.tokenizer, n_pieces=settings.sequence_pieces, held_out=settings.held_out)
        self.counts = {
            "documents": self.packed.n_documents,
            "pieces": self.packed.n_pieces,
            "sequences": len(self.packed.train),
            "held_out_sequences": len(self.packed.held_out),
            "removed_sentences": self.removed.n_removed,
        }
        self.n_head_steps = settings.head_steps if self.new_head else 0
        by_epochs = max(1, settings.epochs * len(self.packed.train) // settings.batch_size)
        self.n_steps = self.n_head_steps + (settings.steps or by_epochs)
        masking, n_train = Masking(self.tokenizer, settings.masked), self.n_steps * settings.batch_size
        self.train = MaskedSequences(self.packed.train, masking, n_train, seed=settings.seed)
        n_held_out = len(self.packed.held_out)
        self.held_out = MaskedSequences(self.packed.held_out, masking, n_held_out, seed=_HELD_OUT_SEED)

    def _make_trainer(self) -> Trainer:
        settings, is_cuda = self.settings, self.context.device.type == "cuda"
        arguments = TrainingArguments(
            output_dir=str(self.folder.last),
            max_steps=self.n_steps,
            per_device_train_batch_size=settings.batch_size // (settings.accumulation * self.context.n_processes),
            per_device_eval_batch_size=_HELD_OUT_BATCH,
            gradient_accumulation_steps=settings.accumulation,
            max_grad_norm=settings.max_gradient_norm,
            seed=settings.seed,
            bf16=settings.precision == "bf16",
            use_cpu=not is_cuda,
            train_sampling_strategy="sequential",
            dataloader_num_workers=_N_WORKERS if is_cuda else 0,
            dataloader_pin_memory=is_cuda,
            ddp_find_unused_parameters=True,
            eval_on_start=self.checkpoint is None,
            save_strategy="no",
            save_total_limit=1,
            prediction_loss_only=True,
            logging_nan_inf_filter=False,
            disable_tqdm=True,
            report_to=[],
        )
        # One process uses one GPU.
        arguments._n_gpu = min(1, arguments.n_gpu)
        self.model.to(arguments.device)
        groups = decay_groups(list(self.model.parameters()), settings.weight_decay)
        optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=is_cuda or None)
        n_head = self.n_head_steps
        shape = schedule_shape("linear", warmup=settings.warmup, n_steps=self.n_steps - n_head)
        schedule = LambdaLR(optimiser, lambda step: _HEAD_RATE if step < n_head else shape(step - n_head))
        trainer = Trainer(
            self.model,
            arguments,
            default_data_collator,
            self.train,
            self.held_out,
            optimizers=(optimiser, schedule),
            compute_loss_func=masked_loss,
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    def run(
        self,
        on_progress: Callable[[AdaptProgress], None] = lambda progress: None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        """Adapt, and write the encoder and ``summary.json``. The callbacks get progress reports and step numbers."""
        with self._held:
            trainer = self._make_trainer()
            trainer.add_callback(_Steps(self, on_progress, on_step))
            try:
                with (
                    quiet_transformers(),
                    matmul_precision(self.settings.precision),
                    self.folder.writing(),
                    explain_out_of_memory(self._out_of_memory),
                ):
                    trainer.train(self.checkpoint)
            finally:
                # Otherwise its precision would apply to all that follows in this process.
                AcceleratorState._reset_state()
            if self.context.is_main:
                self.folder.publish(self.model, encoder=self.settings.encoder)
                self.folder.finish(shareable(self._summary(trainer.state)))
        PartialState().wait_for_everyone()

    def _out_of_memory(self) -> CascadeError:
        return CascadeError(
            f"the device ran out of memory on a batch of {self.settings.batch_size} sequences of "
            f"{self.settings.sequence_pieces} pieces",
            "Split batches into more parts, or lower batch_size",
            option="accumulation",
        )

    def _summary(self, state: Any) -> dict[str, Any]:
        # The perplexity of an untrained head says nothing about the encoder.
        measured = [line for line in state.log_history if "perplexity" in line and line["step"] >= self.n_head_steps]
        between = [{"step": line["step"], "perplexity": line["perplexity"]} for line in measured[1:-1]]
        return {
            "command": self.context.command,
            "settings": self.settings.to_dict(),
            "texts": [str(text) for text in self.texts],
            "holdout": [str(path) for path in self.holdout],
            "new_head": self.new_head,
            "head_steps": self.n_head_steps,
            **self.counts,
            "perplexity": {"before": measured[0]["perplexity"], "during": between, "after": measured[-1]["perplexity"]},
            "steps": state.global_step,
            "seconds": state.log_history[-1]["seconds"],
            "environment": self.context.environment(),
        }


def masked_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | None = None) -> Tensor:
    """Return the sum of the losses of the masked pieces over the number of masked pieces of the whole batch."""
    is_masked = labels != -100
    total = functional.cross_entropy(outputs.logits[is_masked].float(), labels[is_masked], reduction="sum")
    n_masked = is_masked.sum() if num_items_in_batch is None else num_items_in_batch
    return total / n_masked.clamp(min=1)


class _Steps(TrainerCallback):
    """Trains a new head alone at first, decides what happens after a step, and reports progress."""

    def __init__(
        self, adaptation: Adaptation, on_progress: Callable[[AdaptProgress], None], on_step: Callable[[int], None]
    ) -> None:
        self.adaptation, self.settings = adaptation, adaptation.settings
        self.on_progress, self.on_step = on_progress, on_step

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        self.seconds = state.log_history[-1]["seconds"] if state.log_history else 0.0
        self.last_time, self.last_step = time.perf_counter(), state.global_step

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Freeze the encoder, with a decoder that is tied to its embeddings, in the steps of a new head."""
        model.base_model.requires_grad_(state.global_step >= self.adaptation.n_head_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Decide what is due. Losses are averaged from one saved state to the next, as in a resumed run."""
        step, settings = state.global_step, self.settings
        is_measured = step in (self.adaptation.n_head_steps, state.max_steps)
        control.should_evaluate = is_measured or every(settings.evaluate_steps, step)
        control.should_save = every(settings.save_steps, step) and step < state.max_steps
        control.should_log = control.should_evaluate or control.should_save or every(settings.log_steps, step)
        self.on_step(step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report the loss or the perplexity, and replace the line of the Trainer in the log."""
        del state.log_history[-1]
        loss = logs.get("loss", logs.get("eval_loss"))
        if loss is None:
            return
        if not math.isfinite(loss):
            raise CascadeError(
                f"the loss is not a number at step {state.global_step}",
                "Lower the learning rate, or use precision float32",
                option="learning_rate",
            )
        values: dict[str, Any] = {"step": state.global_step}
        n_steps, taken = state.global_step - self.last_step, time.perf_counter() - self.last_time
        self.last_step, self.last_time, self.seconds = state.global_step, self.last_time + taken, self.seconds + taken
        if "loss" in logs:
            n_pieces = n_steps * self.settings.batch_size * self.settings.sequence_pieces
            rate = round(n_pieces / taken, 1)
            values |= {"loss": loss, "learning_rate": logs["learning_rate"], "pieces_per_second": rate}
        else:
            values["perplexity"] = math.exp(min(loss, _HIGHEST))
        values["seconds"] = round(self.seconds, 3)
        state.log_history.append(values)
        if state.is_world_process_zero:
            self.adaptation.folder.write_text(LOG, "".join(json.dumps(line) + "\n" for line in state.log_history))
            self.on_progress(AdaptProgress(steps=state.max_steps, **values))


RECORD, CONFIG = "adapt.json", "config.json"
_UNPUBLISHED = ".encoder.tmp"


class AdaptFolder(OutputFolder):
    """The folder of one adaptation, identified by its ``adapt.json``.

    It holds the log and the checkpoints of the Trainer. At the end the encoder is written to it, its ``config.json``
    last, and then ``summary.json``.
    """

    marker = RECORD
    finished_by = (SUMMARY, CONFIG)
    kind = "an adapted encoder"

    def is_own(self, member: Path) -> bool:
        """Return whether a file or folder was written by the adaptation."""
        files = (self.read_json(RECORD) or {}).get("files", [])
        return member.name in (LAST, LOG, SUMMARY, *files) or self.is_temporary(member)

    def begin(self, settings: AdaptSettings, sha256: str, *, overwrite: bool) -> None:
        """Prepare the folder for settings and text with this checksum, and write ``adapt.json``."""
        record = {"settings": settings.to_dict(), "text": {"sha256": sha256}}
        if self.is_begun and not overwrite:
            stored = self.read_json(RECORD) or {}
            for key, old, new in differences({name: stored.get(name) for name in record}, record):
                raise ConfigError(
                    f"the adaptation in {str(self.path)!r} was started with {key}={old!r} and cannot be resumed with "
                    f"{key}={new!r}",
                    "Resume it with the same text, holdout and settings, or choose another output folder",
                    option="output",
                )
            record = stored
        self.prepare(overwrite=overwrite)
        self.write_json(RECORD, record)
        if self.is_finished:
            self.finish()

    def checkpoint(self) -> str | None:
        """Return the newest complete checkpoint. The Trainer writes its ``trainer_state.json`` last."""
        for path in sorted(self.last.glob("checkpoint-*"), key=lambda path: -int(path.name.rpartition("-")[2])):
            with suppress(OSError, ValueError):
                json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
                return str(path)
        return None

    def publish(self, model: Any, *, encoder: str) -> None:
        """Write the encoder to a temporary folder and move its files to their place, ``config.json`` last."""
        made = self.path / _UNPUBLISHED
        with self.writing():
            made.mkdir()
            save_network(model, made, encoder=encoder)
            self.write_json(RECORD, {**(self.read_json(RECORD) or {}), "files": sorted(os.listdir(made))})
            for member in sorted(made.iterdir(), key=lambda path: path.name == CONFIG):
                replace_durably(member, self.path / member.name)
            made.rmdir()

    def finish(self, summary: dict[str, Any] | None = None) -> None:
        """Write the summary, if one is given, and remove the checkpoints."""
        if summary is not None:
            self.write_json(SUMMARY, summary)
        if self.last.is_dir():
            with self.writing():
                remove(self.last)
