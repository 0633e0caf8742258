"""Format an evaluation as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from cascade_srn.evaluation.evaluate import EvaluatedModel, Evaluation, display_name
from cascade_srn.evaluation.items import format_table
from cascade_srn.evaluation.summary import figures_table
from cascade_srn.inference.constraints import KINDS

# Fewer units than this give unreliable intervals.
FEW_UNITS = 20


def format_evaluation(evaluation: Evaluation, *, per_label: bool = False) -> str:
    """Format scores, figures by model, differences and speed as plain-text tables."""
    parts = [_heading(evaluation), _scores(evaluation, evaluation.models, per_label)]
    if evaluation.against:
        parts += [f"against {_title(evaluation.against)}", _scores(evaluation, evaluation.against, per_label)]
    parts += _differences(evaluation)
    models = (*evaluation.models, *evaluation.against)
    parts += [f"{model.name} predicts entities only, and no relations." for model in models if not model.joint]
    parts += _violations(evaluation, models)
    return "\n\n".join([*parts, _speed(evaluation, models)])


def _heading(evaluation: Evaluation) -> str:
    first = evaluation.models[0]
    sizes = {
        "documents": len(evaluation.gold),
        "sentences": first.n_sentences,
        "words": first.n_words,
        "entities": evaluation.scores[first.name][0].ner.counts.n_gold,
        "relations": sum(len(set(s.triples)) for document in evaluation.gold for s in document.sentences),
    }
    return (
        f"{_title(evaluation.models)} on {display_name(evaluation.options.data)}, {evaluation.condition}\n"
        f"{', '.join(f'{number:,} {name}' for name, number in sizes.items())}; scores in percent"
    )


def _title(models: Sequence[EvaluatedModel]) -> str:
    return models[0].name if len(models) == 1 else f"{len(models)} models (mean ± standard deviation)"


def _scores(evaluation: Evaluation, models: Sequence[EvaluatedModel], per_label: bool) -> str:
    table = figures_table(evaluation.summarise(models, per_label=per_label))
    if len(models) == 1:
        return table
    micro = [[f for f in evaluation.summarise([model]) if ", micro" in f.protocol] for model in models]
    rows = [("F1 by model", *(figure.protocol for figure in micro[0]))]
    rows += [(model.name, *(str(f.f1) for f in figures)) for model, figures in zip(models, micro, strict=True)]
    return f"{table}\n\n{format_table(rows)}"


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
        found = evaluation.count_violations(model)
        both = [found["gold"]["n_violations"], found["predicted"]["n_violations"]]
        if model.schema.constraints or any(both):
            kinds = [found["predicted"][kind] for kind in KINDS]
            rows.append((model.name, found["applied"], *(f"{number:,}" for number in (*both, *kinds))))
    return [format_table(rows)] if rows[1:] else []


def _speed(evaluation: Evaluation, models: Sequence[EvaluatedModel]) -> str:
    rows: list[tuple[str, ...]] = [("speed of this one run", "sentences/s", "words/s", "seconds")]
    for model in models:
        speed = model.measure_speed()
        figures = (speed["sentences_per_second"], speed["words_per_second"])
        rows.append((model.name, *(f"{figure:,.0f}" for figure in figures), f"{model.seconds:.2f}"))
    known = evaluation.environment
    lines = [format_table(rows)]
    if hardware := known.get("gpu") or known.get("cpu"):
        threads = "" if known.get("gpu") else f" ({known['threads']} thread{'s' * (known['threads'] != 1)})"
        batches = f"batches of {evaluation.options.batch_words:,} words"
        lines.append(
            f"on {hardware}{threads}; encoder in {known['precision']}, {batches}; with warm-up, without loading"
        )
        lines.append("(cascade-srn benchmark extract measures speed)")
    return "\n".join(lines)
