"""Measure a head that links coreferent mentions, over the frozen encoder of a model.

Mentions are entities. The head scores each earlier mention of a document as the antecedent of a mention, from the word
vectors of both, their words, types and distance. It learns from the clusters of the training data; the thresholds are
chosen on the development data. docs/results.md has the figures. Nothing in the package uses the head.

    python tools/coreference.py scierc/dygie --cache cache
    python tools/coreference.py scierc/dygie --cache cache --test
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cascade_srn import Document, Extractor, read_documents
from cascade_srn.apps.graph.generic import is_generic
from cascade_srn.apps.graph.normalise import normalise
from cascade_srn.evaluation.coreference import CoreferenceScores, score_clusters
from cascade_srn.formats.registry import write_documents
from cascade_srn.network.cascade import ENTITY, words_at
from cascade_srn.types import Mention

GENERIC = "Generic"
DETERMINERS = frozenset(["the", "this", "these", "that", "those", "our", "its", "their", "such", "a", "an", "both"])
THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(4, 19))
_normalise, _is_generic = cache(normalise), cache(is_generic)
TARGET_PRECISION = 0.70  # on the development data, for 0.65 on the test data
DISTANCES = (1, 2, 3, 4, 8, 16)


def encode(extractor: Extractor, document: Document) -> list[np.ndarray]:
    """Return the vectors of the words of each sentence: those of the encoder, and the inputs of the entity turn."""
    model, network = extractor.model, extractor.model.cascade
    rows = [model.collator.plain(example) for example in extractor.examples([document])]
    batch = model.collator.pieces.batch(rows)
    with torch.no_grad():
        encoded = network.encoder(batch)
        items = network.sequence(encoded, batch.item_lengths)
        row = torch.arange(len(items))[:, None]
        features = network.sequence.task(words_at(items, row, batch.word_items), ENTITY)
        vectors = torch.cat([words_at(encoded, row, batch.word_items), features], dim=-1).half()
    return [found[:n].numpy() for found, n in zip(vectors, batch.word_lengths.tolist(), strict=True)]


def prepare(data: Path, split: str, folder: Path, extractor: Extractor) -> None:
    """Write the vectors of a split to the cache, and its predicted entities, which training does not use."""
    documents = list(read_documents(data / f"{split}.json"))
    if not (folder / f"{split}.npz").exists():
        vectors = [sentence for document in documents for sentence in encode(extractor, document)]
        np.savez(folder / f"{split}.npz", words=np.concatenate(vectors), lengths=[len(each) for each in vectors])
    if split != "train" and not (folder / f"{split}.jsonl").exists():
        write_documents(extractor.predict(documents), folder / f"{split}.jsonl")


@dataclass
class Case:
    """A document with its mentions in text order, their vectors and the features of their pairs."""

    gold: tuple[tuple[Mention, ...], ...]
    mentions: list[Mention] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    vectors: Tensor = field(default_factory=lambda: torch.zeros(0))
    pairs: Tensor = field(default_factory=lambda: torch.zeros(0))

    def owners(self) -> dict[Mention, int]:
        """Return the number of the gold cluster of each mention that is in one."""
        return {mention: number for number, cluster in enumerate(self.gold) for mention in cluster}

    def is_generic(self, position: int) -> bool:
        """Return whether a mention names nothing on its own."""
        return self.labels[position] == GENERIC or _is_generic(self.texts[position])


def load_cases(data: Path, split: str, folder: Path, *, predicted: bool) -> list[Case]:
    """Load the documents of a split, with gold or predicted entities as mentions."""
    gold = list(read_documents(data / f"{split}.json"))
    given = list(read_documents(folder / f"{split}.jsonl")) if predicted else gold
    stored = np.load(folder / f"{split}.npz")
    sentences = iter(np.split(stored["words"], np.cumsum(stored["lengths"])[:-1]))
    return [_make_case(one, other, sentences) for one, other in zip(gold, given, strict=True)]


def _make_case(gold: Document, given: Document, sentences) -> Case:
    case, vectors = Case(gold.clusters), []
    for number, sentence in enumerate(given.sentences):
        words = next(sentences).astype(np.float32)
        spans = {(span.start, span.end): span.label for span in sentence.entities}
        for (start, end), label in sorted(spans.items()):
            case.mentions.append(Mention(number, start, end))
            case.texts.append(" ".join(sentence.words[start:end]))
            case.labels.append(label)
            own = words[start:end]
            vectors.append(np.concatenate([own[0], own[-1], own.mean(axis=0)]))
    if vectors:
        case.vectors = torch.from_numpy(np.stack(vectors))
        n = len(vectors)
        # Only earlier mentions can be antecedents; the other pairs are placeholders.
        case.pairs = torch.tensor([[_pair(case, min(i, j), j) for j in range(n)] for i in range(n)])
    return case


def _pair(case: Case, i: int, j: int) -> list[float]:
    """Return the features of a pair: words, acronyms, generic nouns, determiners, types and distance."""
    words = [case.texts[at].lower().split() for at in (i, j)]
    keys = [_normalise(case.texts[at]).split() or words[n] for n, at in enumerate((i, j))]
    one, other = map(set, keys)
    shared = len(one & other)
    initials = ["".join(word[0] for word in each) for each in words]
    joined = ["".join(each).rstrip("s") for each in words]
    generic = [case.is_generic(at) for at in (i, j)]
    places = [case.mentions[at] for at in (i, j)]
    apart, sentences = j - i, places[1].sentence - places[0].sentence
    found = [
        *(keys[0] == keys[1], words[0] == words[1], keys[0][-1] == keys[1][-1], one <= other, other <= one),
        *(shared / len(one | other), shared / len(one), shared / len(other)),
        *(len(joined[0]) > 1 and joined[0] == initials[1], len(joined[1]) > 1 and joined[1] == initials[0]),
        *(*generic, all(generic), case.labels[i] == case.labels[j]),
        *(words[0][0] in DETERMINERS, words[1][0] in DETERMINERS, words[1][0] in ("this", "these")),
        *(sentences == n for n in range(4)),
        *(apart <= n for n in DISTANCES),
        *(math.log1p(abs(apart)) / 3, math.log(len(words[0])), math.log(len(words[1]))),
        *(places[0].sentence == 0, sentences == 0 and 0 <= places[1].start - places[0].end <= 1),
    ]
    return [float(value) for value in found]


class Head(nn.Module):
    """Scores of all antecedents of each mention, and of having none."""

    def __init__(self, cases: list[Case], *, width: int = 64, hidden: int = 128, dropout: float = 0.4) -> None:
        super().__init__()
        vectors = torch.cat([case.vectors for case in cases])
        self.register_buffer("mean", vectors.mean(dim=0))
        self.register_buffer("scale", vectors.std(dim=0) + 1e-3)
        self.labels = sorted({label for case in cases for label in case.labels})
        self.label = nn.Embedding(len(self.labels) + 1, 8)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(vectors.shape[1], width)
        self.pair = nn.Sequential(
            *(nn.Linear(3 * width + cases[0].pairs.shape[2] + 17, hidden), nn.ReLU(), nn.Dropout(dropout)),
            *(nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Dropout(dropout / 2), nn.Linear(hidden // 2, 1)),
        )
        self.none = nn.Sequential(nn.Linear(width + 8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, case: Case) -> Tensor:
        """Return log probabilities. Shapes: returns (1 + n_mentions, n_mentions); row 0 is "no antecedent"."""
        vectors = (case.vectors - self.mean) / self.scale
        n = len(vectors)
        known = [self.labels.index(label) if label in self.labels else len(self.labels) for label in case.labels]
        label = self.label(torch.tensor(known))
        words = torch.tanh(self.project(self.dropout(vectors)))
        first, second = words[:, None].expand(n, n, -1), words[None].expand(n, n, -1)
        unit = nn.functional.normalize(vectors, dim=-1)
        types = (label[:, None].expand(n, n, -1), label[None].expand(n, n, -1))
        inputs = (first * second, (first - second).abs(), second, case.pairs, *types, (unit @ unit.T)[..., None])
        earlier = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = self.pair(torch.cat(inputs, dim=-1)).squeeze(-1).masked_fill(~earlier, -1e9)
        none = self.none(torch.cat([words, label], dim=-1)).squeeze(-1)
        return torch.cat([none[None], scores]).log_softmax(dim=0)


def targets(case: Case) -> Tensor:
    """Return which antecedents are right: any earlier mention of the same cluster, or none."""
    owners = case.owners()
    owner = torch.tensor([owners.get(mention, -1) for mention in case.mentions])
    same = ((owner[:, None] == owner[None]) & (owner >= 0)).triu(1)
    return torch.cat([~same.any(dim=0, keepdim=True), same])


def train(cases: list[Case], *, seed: int, epochs: int, rate: float = 1e-3, batch: int = 8) -> Head:
    """Train a head by the probability of all right antecedents."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    cases = [case for case in cases if case.mentions]
    head = Head(cases)
    right = [targets(case) for case in cases]
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=1e-2)
    n_steps = epochs * math.ceil(len(cases) / batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, n_steps)
    order = list(range(len(cases)))
    for _ in range(epochs):
        rng.shuffle(order)
        for at in range(0, len(order), batch):
            losses = [-head(cases[n]).masked_fill(~right[n], -1e9).logsumexp(dim=0) for n in order[at : at + batch]]
            optimizer.zero_grad()
            torch.cat(losses).mean().backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return head.eval()


def probabilities(heads: list[Head], cases: list[Case]) -> list[Tensor]:
    """Return the mean probabilities of the heads. Shapes: (1 + n_mentions, n_mentions) each."""
    with torch.no_grad():
        return [torch.stack([head(c).exp() for head in heads]).mean(dim=0) if c.mentions else c.pairs for c in cases]


def link(case: Case, found: Tensor, threshold: float) -> list[list[int]]:
    """Return clusters of positions: each mention is joined with its best antecedent above the threshold."""
    cluster_of = list(range(len(case.mentions)))
    for position in range(1, len(cluster_of)):
        best = found[1:, position].max(dim=0)
        if best.values >= threshold:
            cluster_of[position] = cluster_of[int(best.indices)]
    clusters: dict[int, list[int]] = {}
    for position, cluster in enumerate(cluster_of):
        clusters.setdefault(cluster, []).append(position)
    return [members for members in clusters.values() if len(members) > 1]


@dataclass(frozen=True)
class Result:
    """Scores at a threshold, and how many generic mentions are resolved: all, linked to a name, rightly linked."""

    threshold: float
    scores: CoreferenceScores
    generic: tuple[int, int, int]

    @property
    def precision(self) -> float:
        """Mean precision of MUC, B³ and CEAF-e."""
        return (self.scores.muc.precision + self.scores.b_cubed.precision + self.scores.ceaf_e.precision) / 3

    def __str__(self) -> str:
        n, linked, right = self.generic
        return (
            f"threshold {self.threshold:.2f}, mean precision {100 * self.precision:.1f}, "
            f"generic mentions: {n}, linked to a name: {linked}, rightly: {right}\n{self.scores}"
        )


def measure(cases: list[Case], found: list[Tensor], threshold: float) -> Result:
    """Score the clusters at a threshold."""
    scores, n, linked, right = CoreferenceScores(), 0, 0, 0
    for case, each in zip(cases, found, strict=True):
        clusters = link(case, each, threshold) if case.mentions else []
        scores += score_clusters(case.gold, [[case.mentions[at] for at in members] for members in clusters])
        n += sum(map(case.is_generic, range(len(case.mentions))))
        owners = case.owners()
        for members in clusters:
            names = [at for at in members if not case.is_generic(at)]
            for at in members:
                if case.is_generic(at) and names:
                    name = max((other for other in names if other < at), default=names[0])
                    linked += 1
                    right += owners.get(case.mentions[at], -1) == owners.get(case.mentions[name], -2)
    return Result(threshold, scores, (n, linked, right))


def main() -> None:
    """Train heads, choose thresholds on the development data, and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with train.json, dev.json and test.json in the DyGIE form")
    parser.add_argument("--model", help="model whose encoder is used; default: the bundled one")
    parser.add_argument("--cache", type=Path, required=True, help="folder for vectors and predicted entities")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--test", action="store_true", help="also score the test data, at the chosen thresholds")
    chosen = parser.parse_args()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    splits = ("train", "dev", "test") if chosen.test else ("train", "dev")
    needed = [f"{split}.npz" for split in splits] + [f"{split}.jsonl" for split in splits[1:]]
    if not all((chosen.cache / name).exists() for name in needed):
        extractor = Extractor.from_pretrained(chosen.model)
        for split in splits:
            prepare(chosen.data, split, chosen.cache, extractor)
    cases = load_cases(chosen.data, "train", chosen.cache, predicted=False)
    heads = [train(cases, seed=seed, epochs=chosen.epochs) for seed in range(chosen.seeds)]
    development = load_cases(chosen.data, "dev", chosen.cache, predicted=True)
    found = probabilities(heads, development)
    results = [measure(development, found, threshold) for threshold in THRESHOLDS]
    precise = [result for result in results if result.precision >= TARGET_PRECISION] or results[-1:]
    best = max(results, key=lambda result: result.scores.conll_f1)
    for name, at in (("best F1", best.threshold), ("precise", precise[0].threshold)):
        for split in splits[1:]:
            for predicted in (True, False):
                own = load_cases(chosen.data, split, chosen.cache, predicted=predicted)
                mentions = "predicted" if predicted else "gold"
                result = measure(own, probabilities(heads, own), at)
                print(f"\n{name}, {split}, {mentions} entities: {result}", flush=True)


if __name__ == "__main__":
    main()
