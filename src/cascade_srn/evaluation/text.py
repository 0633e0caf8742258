"""An evaluation as text for a terminal: every figure beside the name of its protocol."""

from __future__ import annotations

from collections.abc import Sequence

from cascade_srn.evaluation.evaluate import Evaluation, Run, shown_name
from cascade_srn.evaluation.items import aligned
from cascade_srn.evaluation.summary import figures_table


def evaluation_text(evaluation: Evaluation, *, per_label: bool = False) -> str:
    """The tables of an evaluation, one below the other: scores, models one by one, differences, speed."""
    parts = [_heading(evaluation), _side(evaluation, evaluation.runs, per_label)]
    if evaluation.against:
        parts += [_names("against", evaluation.against), _side(evaluation, evaluation.against, per_label)]
    parts += _differences(evaluation)
    runs = (*evaluation.runs, *evaluation.against)
    parts += [f"{run.name} extracts entities only: its relations count as none." for run in runs if not run.joint]
    return "\n\n".join([*parts, _speed(evaluation, runs)])


def _heading(evaluation: Evaluation) -> str:
    first = evaluation.scores[evaluation.runs[0].name][0]
    sizes = {
        "documents": len(evaluation.gold),
        "sentences": evaluation.runs[0].n_sentences,
        "words": evaluation.runs[0].n_words,
        "entities": first.ner.counts.n_gold,
        "relations": sum(len(set(s.triples)) for document in evaluation.gold for s in document.sentences),
    }
    held = ", ".join(f"{number:,} {name}" for name, number in sizes.items())
    return (
        f"{_names('', evaluation.runs)} on {shown_name(evaluation.options.data)}, {evaluation.condition}\n"
        f"{held}; percentages"
    )


def _names(before: str, runs: Sequence[Run]) -> str:
    named = runs[0].name if len(runs) == 1 else f"{len(runs)} models (mean ± standard deviation)"
    return f"{before} {named}".strip()


def _side(evaluation: Evaluation, runs: Sequence[Run], per_label: bool) -> str:
    table = figures_table(evaluation.figures(runs, per_label=per_label))
    if len(runs) == 1:
        return table
    micro = [[f for f in evaluation.figures([run]) if ", micro" in f.protocol] for run in runs]
    rows = [("F1 by model", *(figure.protocol for figure in micro[0]))]
    rows += [(run.name, *(str(f.f1) for f in figures)) for run, figures in zip(runs, micro, strict=True)]
    return f"{table}\n\n{aligned(rows)}"


def _differences(evaluation: Evaluation) -> list[str]:
    if evaluation.sides is None:
        return []
    if not evaluation.differences:
        drawn, n_sentences = evaluation.options.resample, evaluation.runs[0].n_sentences
        mend = "--resample sentences" if n_sentences > 1 else "more data"
        return [
            f"The difference was not tested: a bootstrap over {evaluation.n_units} {drawn} says nothing; give {mend}"
        ]
    first, second = ("the models" if len(side) > 1 else side[0].name for side in evaluation.sides)
    one = evaluation.differences[0]
    drawn = f"{one.n_units:,} {evaluation.options.resample}"
    if one.to_dict()["drawn_models"]:
        drawn += " and of the models of a side"
    lines = [
        f"{first} minus {'those they are held against' if len(evaluation.sides[1]) > 1 else second}: "
        f"paired bootstrap, {one.bootstrap.n_resamples:,} resamples of {drawn}, seed {one.bootstrap.seed}",
        *(f"  {difference}" for difference in evaluation.differences),
    ]
    if one.n_units < 20:
        lines.append(f"  {one.n_units} {evaluation.options.resample} are few for a bootstrap: take this with care")
    return ["\n".join(lines)]


def _speed(evaluation: Evaluation, runs: Sequence[Run]) -> str:
    rows: list[tuple[str, ...]] = [("speed of this one run", "sentences/s", "words/s", "seconds")]
    for run in runs:
        speed = run.speed()
        figures = (speed["sentences_per_second"], speed["words_per_second"])
        rows.append((run.name, *(f"{figure:,.0f}" for figure in figures), f"{run.seconds:.2f}"))
    known = evaluation.environment
    lines = [aligned(rows)]
    if hardware := known.get("gpu") or known.get("cpu"):
        threads = "" if known.get("gpu") else f" ({known['threads']} thread{'s' * (known['threads'] != 1)})"
        batches = f"batches of {evaluation.options.batch_words:,} words"
        lines.append(f"on {hardware}{threads}; encoder in {known['precision']}, {batches}; loading is not counted,")
        lines.append("warming up is: to measure speed, use cascade-srn benchmark extract")
    return "\n".join(lines)
