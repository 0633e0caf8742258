"""What a run starts from: processes, devices, random numbers, and a model before its first step."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from cascade_srn.config import FRESH
from cascade_srn.data.folders import leaving_no_folders
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.model import Model
from cascade_srn.training.corpus import Corpus
from cascade_srn.training.recipe import FreshEncoderSettings, Recipe


def make_accelerator(device: str = "auto", **options: Any) -> Accelerator:
    """Knows the processes that this one was launched with.

    Precision is the loop's own affair, and a batch without relations leaves the weights of turn 3 without
    gradients.
    """
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # Without a GPU accelerate has to be told, or each of several processes takes itself to be alone.
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    on_cpu = several and (device == "cpu" or not torch.cuda.is_available())
    return Accelerator(mixed_precision="no", cpu=on_cpu, kwargs_handlers=[unused], **options)


def end_processes() -> None:
    """Part from the other processes, where there are any, when all is done."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def seed_everything(seed: int) -> None:
    """Seed the random numbers of Python, numpy and torch on all devices."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def create_model(recipe: Recipe, corpus: Corpus, *, accelerator: Accelerator, folder: Path) -> Model:
    """The model of a recipe before training; what is not pretrained starts at random, by the recipe's seed.

    All processes call this. A fresh encoder passes through the ``folder`` that they share.
    """
    settings, seed = recipe.model, recipe.training.seed
    if settings.encoder.name != FRESH:
        return Model.create(settings, corpus.schema, seed=seed)
    with _fresh_encoder(recipe, corpus, accelerator, folder) as name:
        named = replace(settings, encoder=replace(settings.encoder, name=name))
        # The encoder's folder is gone in a moment: the model keeps the name that the recipe gives.
        return replace(Model.create(named, corpus.schema, seed=seed), settings=settings)


@contextmanager
def _fresh_encoder(recipe: Recipe, corpus: Corpus, accelerator: Accelerator, folder: Path) -> Iterator[str]:
    """The folder of a small encoder over the training words, made by the main process alone: transformers has no
    other process write."""
    shape = FreshEncoderSettings() if recipe.fresh is None else recipe.fresh
    made = folder / ".fresh-encoder.tmp"
    with leaving_no_folders(folder) if accelerator.is_main_process else nullcontext():
        if accelerator.is_main_process:
            words = [word for document in corpus.train for sentence in document.sentences for word in sentence.words]
            create_encoder(words, made, seed=recipe.training.seed, **shape.to_dict())
        accelerator.wait_for_everyone()
        try:
            yield str(made)
            accelerator.wait_for_everyone()
        finally:
            if accelerator.is_main_process:
                shutil.rmtree(made)
