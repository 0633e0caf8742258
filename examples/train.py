"""Train a small model on the example corpus and extract from sentences it has not seen.

    python examples/train.py [--preset swift] [--epochs 20] [--output runs/example]

The encoder starts at random with a vocabulary of the training words, so that nothing has to be downloaded: expect
it to pick up how names look and how sentences relate them, not to know the world. A pretrained encoder does much
better, by its hub id or folder: --encoder allenai/scibert_scivocab_uncased.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cascade_srn import Document, Extractor, Model, ModelSettings, TrainingSettings, read_documents, read_schema, train
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.evaluation.scores import score_documents

CORPUS = Path(__file__).parent / "news"
UNSEEN = (
    "Helena Voss, chief executive of Brightwater Energy, was born in Lisbon.",
    "Tarnley Instruments, based in Leeds, has signed a partnership with Orbane.",
    "The coach praised her goalkeeper after the match.",
    "Sari Nieminen works for the University of Tampere as a professor.",
)


def main() -> None:
    arguments = _arguments()
    console = Console(soft_wrap=True)
    documents = {split: list(read_documents(CORPUS / f"{split}.jsonl")) for split in ("train", "dev", "test")}
    schema = read_schema(CORPUS / "schema.json")
    with tempfile.TemporaryDirectory() as folder:
        encoder = arguments.encoder or _fresh_encoder(documents["train"], folder)
        # Names of this corpus contain others, such as the place in the name of a university.
        values = {"encoder": {"name": encoder}, "fusion": arguments.preset, "overlaps": "nested"}
        rates = {}
        if not arguments.encoder:
            # What starts at random is small, learns fast, and reads the sentence both ways.
            values |= {"sequence_encoder": "bisrn", "hidden_width": 64, "matcher_width": 64, "dropout": 0.2}
            rates = {"learning_rate": 3e-3, "encoder_learning_rate": 1e-3}
        settings = ModelSettings.from_dict(values)
        model = Model.create(settings, schema)
        n_sentences = sum(len(d.sentences) for d in documents["train"])
        console.print(f"Training [bold]{arguments.preset}[/] on {n_sentences} sentences of {CORPUS.name}:")
        started = time.perf_counter()
        training = TrainingSettings(epochs=arguments.epochs, evaluate_every=5, **rates)
        for progress in train(model, documents["train"], documents["dev"], training):
            if progress.dev is not None:
                ner, strict = progress.dev.ner.counts.f1, progress.dev.re_strict.counts.f1
                console.print(
                    f"  epoch {progress.epoch:>2}/{progress.epochs}  loss {progress.loss:7.2f}"
                    f"  dev: NER {100 * ner:4.1f}  RE strict, directed {100 * strict:4.1f}"
                    + ("  (best so far)" if progress.best else "")
                )
        console.print(f"  {time.perf_counter() - started:.0f} s\n")
        model.save(arguments.output)

    extractor = Extractor.from_pretrained(arguments.output)
    console.print("The test split, with the weights that did best on dev:")
    console.print(score_documents(documents["test"], extractor.predict(documents["test"]), schema=schema).table())
    console.print("\nSentences it has not seen:")
    for text in UNSEEN:
        _show(console, extractor.extract(text))
    console.print(f"\nThe model is in {arguments.output}: Extractor.from_pretrained({str(arguments.output)!r})")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="swift", help="a fusion preset: swift, hybrid, early, late, subject-marker")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--encoder", help="a pretrained encoder, by hub id or folder (default: a fresh small one)")
    parser.add_argument("--output", type=Path, default=Path("runs/example"))
    return parser.parse_args()


def _fresh_encoder(documents: list[Document], folder: str) -> str:
    words = [word for document in documents for sentence in document.sentences for word in sentence.words]
    return create_encoder(words, folder, width=64, n_layers=1, vocabulary=1200, dropout=0.2)


def _show(console: Console, document: Document) -> None:
    console.print(f"\n  [italic]{document.text}[/]")
    if not document.entities:
        console.print("    nothing found")
        return
    table = Table("", "", "score", box=None, padding=(0, 2), show_header=False)
    for entity in document.entities:
        table.add_row(f"    {entity.text}", f"[cyan]{entity.label}[/]", f"{entity.score:.2f}")
    for relation in document.relations:
        triple = f"{relation.head.text} [magenta]{relation.label}[/] {relation.tail.text}"
        table.add_row(f"    {triple}", "", f"{relation.score:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
