"""Format an evaluation as text for a terminal."""

from collections.abc import Sequence

from cascade_srn.evaluation.errors import FALSE_POSITIVES
from cascade_srn.evaluation.items import format_table
from cascade_srn.evaluation.noise import CLEAN, NOISE_TASKS
from cascade_srn.evaluation.result import EvaluatedModel, Evaluation, display_name
from cascade_srn.evaluation.scores import Spread, figures_table
from cascade_srn.inference.constraints import KINDS
from cascade_srn.inference.precision import CONFIDENCE

# Fewer units than this give unreliable intervals.
FEW_UNITS = 20


def format_evaluation(evaluation: Evaluation, *, per_label: bool = False) -> str:
    """Format scores, figures by model, differences and speed as plain-text tables."""
    parts = [_heading(evaluation), _scores(evaluation, evaluation.models, per_label)]
    if evaluation.against:
        parts += [f"against {_title(evaluation.against)}", _scores(evaluation, evaluation.against, per_label)]
    parts += _differences(evaluation)
    models = evaluation.all_models
    parts += [f"{model.name} predicts entities only, and no relations." for model in models if not model.joint]
    parts += [*_violations(evaluation, models), *_promises(evaluation)]
    return "\n\n".join([*parts, *_speed(evaluation, models)])


def _heading(evaluation: Evaluation) -> str:
    first = evaluation.models[0]
    sizes = {
        "documents": len(evaluation.gold),
        "sentences": sum(len(document.sentences) for document in evaluation.gold),
        "words": sum(len(sentence) for document in evaluation.gold for sentence in document.sentences),
        "entities": evaluation.scores[first.name][0].ner.counts.n_gold,
        "relations": sum(len(set(s.triples)) for document in evaluation.gold for s in document.sentences),
    }
    condition = f"{evaluation.condition}{_overlaps(evaluation)}"
    return (
        f"{_title(evaluation.models)} on {display_name(evaluation.options.data)}, {condition}\n"
        f"{', '.join(f'{number:,} {name}' for name, number in sizes.items())}; scores in percent"
    )


def _overlaps(evaluation: Evaluation) -> str:
    """Return the treatment of overlapping entities, for each model if they differ. Given entities have none."""
    models = evaluation.all_models
    modes = {model.overlaps for model in models}
    if None in modes:
        return ""
    if len(modes) == 1:
        return f", overlaps {modes.pop()}"
    return f", overlaps {'; '.join(f'{model.overlaps} ({model.name})' for model in models)}"


def _title(models: Sequence[EvaluatedModel]) -> str:
    return models[0].name if len(models) == 1 else f"{len(models)} models (mean ± standard deviation)"


def _scores(evaluation: Evaluation, models: Sequence[EvaluatedModel], per_label: bool) -> str:
    table = figures_table(evaluation.summarise(models, per_label=per_label))
    groups = [evaluation.summarise_groups(models, name) for name in dict.fromkeys(evaluation.options.by)]
    others = [f"{title}\n{figures_table(figures)}" for title, figures in groups]
    others += [_false_positives(evaluation, models), *_segmentation(evaluation, models)]
    others += [_noise(evaluation, models)] if evaluation.options.noise else []
    if len(models) == 1:
        return "\n\n".join([table, *others])
    micro = [[f for f in evaluation.summarise([model]) if ", micro" in f.protocol] for model in models]
    rows = [("F1 by model", *(figure.protocol for figure in micro[0]))]
    rows += [(model.name, *(str(f.f1) for f in figures)) for model, figures in zip(models, micro, strict=True)]
    return "\n\n".join([table, format_table(rows), *others])


def _false_positives(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> str:
    rows = [("predicted", "sentences", "with predictions", "share")]
    found = [evaluation.analyses[model.name].false_positives for model in models]
    for key, one in found[0].items():
        shares = [share for of_model in found if (share := of_model[key].share) is not None]
        n_predicted = f"{one.n_predicted:,}" if len(models) == 1 else ""
        rows.append(
            (FALSE_POSITIVES[key][0], f"{one.n_sentences:,}", n_predicted, str(Spread.of(shares)) if shares else "-")
        )
    return format_table(rows)


def _segmentation(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> list[str]:
    """Return what the words and sentences of the models keep of gold, once for models with the same ones."""
    every = (evaluation.analyses[model.name].segmentation for model in models)
    found = dict.fromkeys(one for one in every if one is not None)
    tables = []
    for one in found:
        rows = [("gold kept by the segmenter", "gold", "kept", "share")]
        for name, (kept, n, share) in one.shares.items():
            rows.append((name.replace("_", " "), f"{n:,}", f"{kept:,}", "-" if share is None else f"{100 * share:.1f}"))
        counts = f"{one.n_sentences:,} sentences from the text, {one.n_gold_sentences:,} in gold"
        tables.append(f"{counts}\n{format_table(rows)}")
    return tables


def _noise(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> str:
    """Return the F1 with each kind of noise, and its difference from that of the clean text."""
    found = evaluation.summarise_noise(models)
    rows = [("F1 with noise", *(cell for name in NOISE_TASKS.values() for cell in (name, "difference")))]
    for kind, row in found.items():
        cells: list[str] = []
        for task, one in row.items():
            change = 100 * (one.mean - found[CLEAN][task].mean)
            cells += [str(one), "" if kind == CLEAN else f"{change:+.1f}"]
        rows.append((kind, *cells))
    return format_table(rows)


def _differences(evaluation: Evaluation) -> list[str]:
    if evaluation.sides is None:
        return []
    unit = evaluation.options.resample
    if not evaluation.differences:
        advice = "Resample sentences instead" if evaluation.models[0].n_sentences > 1 else "Use more data"
        return [f"Difference not tested: {evaluation.n_units} {unit} are too few for a bootstrap. {advice}."]
    first, second = evaluation.sides
    names = (
        first[0].name if len(first) == 1 else "the models",
        second[0].name if len(second) == 1 else "the models of the other side",
    )
    one = evaluation.differences[0]
    drawn = f"{one.n_units:,} {unit}" + (" and of the models of each side" if one.to_dict()["drawn_models"] else "")
    lines = [
        f"{names[0]} minus {names[1]}: "
        f"paired bootstrap, {one.bootstrap.n_resamples:,} resamples of {drawn}, seed {one.bootstrap.seed}",
        *(f"  {difference}" for difference in evaluation.differences),
    ]
    if one.n_units < FEW_UNITS:
        lines.append(f"  Intervals from {one.n_units} {unit} are unreliable.")
    return ["\n".join(lines)]


def _violations(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> list[str]:
    """Return a table of violated constraints. It is empty if there are no constraints and no violations."""
    rows = [("violated constraints", "applied", "gold", "predicted", *KINDS)]
    for model in models:
        found = evaluation.analyses[model.name].violations
        both = [found["gold"]["n_violations"], found["predicted"]["n_violations"]]
        if model.schema.constraints or any(both):
            kinds = [found["predicted"][kind] for kind in KINDS]
            rows.append((model.name, found["applied"], *(f"{number:,}" for number in (*both, *kinds))))
    return [format_table(rows)] if rows[1:] else []


def _promises(evaluation: Evaluation) -> list[str]:
    """Return a table of promised and measured precision for each model that can promise some."""
    tables = []
    for name, promises in evaluation.promises.items():
        of = f" of {name}" if len(evaluation.promises) > 1 else ""
        notion = f", {promises[0].notion}" if promises else ""
        title = f"promised{of}{notion}, {CONFIDENCE:.0%} confidence"
        rows = [(title, "precision", "score from", "measured", "recall", "relations where gold has none")]
        for one in promises:
            measured = f"{100 * one.counts.precision:.1f}", f"{100 * one.counts.recall:.1f}"
            share = "-" if one.false_positives is None else f"{100 * one.false_positives:.1f}"
            rows.append(
                (one.name, f"{100 * one.level:g}", f"{one.min_score:g}" if one.min_score else "all", *measured, share)
            )
        tables += [format_table(rows)] if rows[1:] else []
    return tables


def _speed(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> list[str]:
    """Return a table of the speed of models. Predictions made elsewhere have none."""
    rows: list[tuple[str, ...]] = [("speed of this one run", "sentences/s", "words/s", "seconds")]
    for model in models:
        if (speed := model.measure_speed()) is not None:
            figures = (speed["sentences_per_second"], speed["words_per_second"])
            rows.append((model.name, *(f"{figure:,.0f}" for figure in figures), f"{speed['seconds']:.2f}"))
    if not rows[1:]:
        return []
    known = evaluation.environment
    lines = [format_table(rows)]
    if hardware := known.get("gpu") or known.get("cpu"):
        threads = "" if known.get("gpu") else f" ({known['threads']} thread{'s' * (known['threads'] != 1)})"
        batches = f"batches of {evaluation.options.batch_words:,} words"
        lines.append(
            f"on {hardware}{threads}; encoder in {known['precision']}, {batches}; with warm-up, without loading"
        )
        lines.append("(cascade-srn benchmark extract measures speed)")
    return ["\n".join(lines)]
