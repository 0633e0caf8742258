"""Draw pairs of names to judge by hand: merged pairs, nearly merged pairs, and acronyms.

    python tools/sample_merges.py CORPUS… --seed 1 --output pairs.tsv --acronyms acronyms.tsv

A nearly merged pair is one that a rule has refused, or a name with the most similar one of another node. After the
column ``judgement`` is filled in with ``same`` or ``different``, ``--summary`` prints the shares.

    python tools/sample_merges.py --summary pairs.tsv acronyms.tsv
"""

import argparse
import csv
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

from cascade_srn.apps.graph import GraphSettings
from cascade_srn.apps.graph.build import collect_surfaces, read_texts
from cascade_srn.apps.graph.load import load
from cascade_srn.apps.graph.normalise import squeeze
from cascade_srn.apps.graph.resolve import describe_forms, resolve
from cascade_srn.apps.graph.rules import find_pairs

COLUMNS = ("kind", "first", "second", "first_label", "second_label", "step", "reason", "score", "judgement")
MERGED = {"text": 40, "head": 30, "acronym": 30, "fuzzy": 50}
NEARLY = {"refused": 75, "similar": 75}
N_ACRONYMS = 100
N_QUERIES, MIN_SIMILARITY = 600, 85


def draw(corpora: list[str], seed: int, output: Path, acronyms: Path) -> None:
    """Resolve the names of a corpus, and write the two samples."""
    rng = random.Random(seed)
    settings = GraphSettings()
    extracted = load(corpora, settings)
    surfaces = collect_surfaces(extracted)
    found = resolve(surfaces, read_texts(extracted, settings)[0], settings)
    forest = found.forest
    merged = defaultdict(list)
    for key, form, reason in describe_forms(surfaces, found):
        if reason != "case":
            label = forest.keys[key].main_label
            merged["text"].append(("merged", form, forest.keys[key].name, label, label, "text", reason, 1.0))
    for merge in forest.merges:
        # Long forms alone are in the other sample.
        if merge.step != "acronym" or not merge.reason.startswith("defined"):
            merged[merge.step].append(
                _row(forest, "merged", merge.key, merge.into, merge.step, merge.reason, merge.score)
            )
    rows = [row for step, number in MERGED.items() for row in _sample(rng, merged[step], number)]
    refused = [
        _row(forest, "refused", pair.key, pair.into, "fuzzy", pair.refusal, pair.score)
        for pair in find_pairs(forest, settings.fuzzy_threshold, found.words)
        if pair.refusal and forest.root(pair.key) != forest.root(pair.into)
    ]
    rows += _sample(rng, refused, NEARLY["refused"])
    rows += _sample(rng, _similar(forest, rng), NEARLY["similar"])
    _write(output, rows)
    expansions = [
        _row(forest, "everywhere", merge.key, merge.into, merge.step, merge.reason, 1.0)
        for merge in forest.merges
        if merge.step == "acronym" and merge.reason.startswith("defined")
    ]
    local = sorted({(key, other) for (_, key), other in found.local.items()})
    expansions += [_row(forest, "local", key, other, "acronym", found.reasons[key, other], 1.0) for key, other in local]
    _write(acronyms, _sample(rng, expansions, N_ACRONYMS))


def _row(forest, kind, key, into, step, reason, score):
    one, other = forest.keys[key], forest.keys[into]
    # The ids of documents are not part of the sample.
    reason = reason.partition(", such as")[0]
    return kind, one.name, other.name, one.main_label, other.main_label, step, reason, round(score, 3)


def _similar(forest, rng):
    """Return names with the most similar name of another node."""
    from rapidfuzz import fuzz, process

    used = [at for at, key in enumerate(forest.keys) if key.n]
    letters = {at: squeeze(forest.keys[at].text) for at in used}
    rows = {}
    for at in rng.sample(used, min(N_QUERIES, len(used))):
        near = process.extract(letters[at], letters, scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY, limit=5)
        other = next((other for _, _, other in near if forest.root(other) != forest.root(at)), None)
        if other is not None:
            score = fuzz.ratio(letters[at], letters[other]) / 100
            rows[tuple(sorted((at, other)))] = _row(forest, "similar", at, other, "", "not compared", score)
    return list(rows.values())


def _sample(rng, rows, number):
    return rng.sample(sorted(rows), min(number, len(rows)))


def _write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*row, "") for row in rows)


def summarise(paths: list[Path]) -> None:
    """Print the share of pairs that are the same, by kind and step."""
    for path in paths:
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle, delimiter="\t"))
        open_rows = [row for row in rows if row["judgement"] not in ("same", "different")]
        if open_rows:
            sys.exit(f"{path}: {len(open_rows)} pairs are not judged")
        for column in ("kind", "step"):
            groups = Counter((row["kind"], row["step"]) if column == "step" else row["kind"] for row in rows)
            for group, total in sorted(groups.items(), key=str):
                own = [row for row in rows if group in (row["kind"], (row["kind"], row["step"]))]
                same = sum(row["judgement"] == "same" for row in own)
                print(f"{path.name}\t{group}\t{same} of {total} same ({100 * same / total:.1f} %)")


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("merge-pairs.tsv"))
    parser.add_argument("--acronyms", type=Path, default=Path("acronyms.tsv"))
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.summary:
        summarise([Path(path) for path in options.paths])
    else:
        draw(options.paths, options.seed, options.output, options.acronyms)


if __name__ == "__main__":
    main()
