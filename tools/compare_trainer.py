"""Compare the speed of ``cascade-srn adapt`` with transformers' Trainer on the same sequences.

    python tools/compare_trainer.py TEXT.jsonl [--field text] [--size small|base] [--steps 300] [--rounds 3]

Both train a BERT with random weights by masked language modelling: batches of 32 sequences of 256 pieces, fused AdamW,
bf16 on a GPU. They run in turns, and the median of pieces per second is printed. The Trainer masks single pieces with
its own collator, in the main process and with four worker processes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from cascade_srn.inputs.texts import find_texts, read_texts
from cascade_srn.storage.bundled import find_model
from cascade_srn.training.adapt.loop import AdaptLoop
from cascade_srn.training.adapt.network import Masking, load_network
from cascade_srn.training.adapt.packing import Packed, pack
from cascade_srn.training.adapt.settings import AdaptSettings

SIZES = {"small": (384, 6, 1536), "base": (768, 12, 3072)}
BATCH_SIZE, N_PIECES, LOG_STEPS = 32, 256, 50


def make_encoder(folder: Path, size: str) -> Any:
    """Write an encoder with random weights and the tokenizer of the bundled model; return the tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(find_model(None))
    width, n_layers, inner = SIZES[size]
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=n_layers,
        num_attention_heads=12,
        intermediate_size=inner,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def measure_adapt(folder: Path, packed: Packed, tokenizer: Any, n_steps: int, device: torch.device) -> float:
    """Return the pieces per second of the loop of ``adapt``."""
    precision = "bf16" if device.type == "cuda" else "float32"
    settings = AdaptSettings(
        encoder=str(folder), steps=n_steps, batch_size=BATCH_SIZE, precision=precision, save_steps=0
    )
    network = load_network(str(folder), seed=0).to(device)
    loop = AdaptLoop(network, packed, Masking(tokenizer, share=settings.masked), settings)
    rates = [progress.pieces_per_second for progress in loop if progress.pieces_per_second]
    return statistics.median(rates[1:])


class Clock(TrainerCallback):  # type: ignore[misc]
    """Notes the time every ``LOG_STEPS`` steps."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the time after all work of the device is done."""
        if state.global_step % LOG_STEPS == 0:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.perf_counter())


def measure_trainer(folder: Path, packed: Packed, tokenizer: Any, n_steps: int, n_workers: int) -> float:
    """Return the pieces per second of the Trainer."""
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=BATCH_SIZE,
        max_steps=n_steps,
        bf16=torch.cuda.is_available(),
        optim="adamw_torch_fused",
        learning_rate=1e-4,
        weight_decay=0.01,
        logging_steps=LOG_STEPS,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=n_workers,
        dataloader_persistent_workers=bool(n_workers),
    )
    Trainer(
        model=BertForMaskedLM.from_pretrained(folder),
        args=arguments,
        train_dataset=[{"input_ids": row} for row in packed.train.ids.tolist()],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        callbacks=[clock],
    ).train()
    spent = [after - before for before, after in zip(clock.times, clock.times[1:], strict=False)]
    return statistics.median(LOG_STEPS * BATCH_SIZE * N_PIECES / seconds for seconds in spent)


def main() -> None:
    """Measure in turns and print the medians."""
    parser = argparse.ArgumentParser(description="Compare the speed of adapt with transformers' Trainer.")
    parser.add_argument("text", help="raw text, as for cascade-srn adapt")
    parser.add_argument("--field", default="text", help="field of JSON records with the text (%(default)s)")
    parser.add_argument("--size", choices=SIZES, default="small", help="size of the encoder (%(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="steps of each measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (%(default)s)")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = make_encoder(folder, options.size)
        texts = read_texts(find_texts([options.text]), field=options.field)
        packed = pack(texts, tokenizer, n_pieces=N_PIECES, held_out=0.01)
        given = (folder, packed, tokenizer, options.steps)
        candidates: dict[str, Callable[[], float]] = {
            "adapt": lambda: measure_adapt(*given, device),
            "Trainer": lambda: measure_trainer(*given, 0),
            "Trainer, 4 workers": lambda: measure_trainer(*given, 4),
        }
        rates: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(options.rounds):
            for name, run in candidates.items():
                AcceleratorState._reset_state(reset_partial_state=True)
                rates[name].append(run())
    for name, found in rates.items():
        print(f"{options.size:6} {name:20} {statistics.median(found):10,.0f} pieces/s  {[round(x) for x in found]}")


if __name__ == "__main__":
    main()
