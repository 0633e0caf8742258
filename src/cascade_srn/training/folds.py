"""Cross-validation: one run for each part of the training data, which is the test set of that run."""

from dataclasses import replace

from accelerate import Accelerator

from cascade_srn.errors import ConfigError
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.seeds import Series


class Folds(Series):
    """Runs of a recipe with ``data.folds``, in the folders ``fold-0``, ``fold-1`` … of its output.

    The documents of train are divided into parts with about the same labels
    (:func:`~cascade_srn.training.holdout.divide`). Each run learns from the others, and is scored on its own part as
    test. ``data.dev`` is a file, or a share of the documents to learn from, so that no choice is made on the part.

    Example:
        >>> recipe = load_recipe("recipe.yaml", ["data.folds=5"])
        >>> series = Folds(recipe, processes=make_accelerator("auto"))
        >>> for each in series.to_run():
        ...     for progress in Run(each):
        ...         print(progress.step, progress.loss)
        >>> summaries = series.finish()
    """

    name = "fold"
    setting = "data.fold"

    def __init__(
        self, recipe: Recipe, *, processes: Accelerator, resume: bool = False, overwrite: bool = False
    ) -> None:
        if recipe.data.folds is None or recipe.data.fold is not None:
            given = f"data.fold is {recipe.data.fold}" if recipe.data.fold is not None else "data.folds is not given"
            raise ConfigError(f"{given}, so there is one run only", "Train it as one run", option="folds")
        variants = [replace(recipe, data=replace(recipe.data, fold=fold)) for fold in range(recipe.data.folds)]
        super().__init__(recipe, variants, processes=processes, resume=resume, overwrite=overwrite)
