"""The documents of a recipe: read, counted, and known again by their checksums."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cascade_srn.data import read_documents, read_schema
from cascade_srn.data.alignment import Align
from cascade_srn.data.reports import ReadReport
from cascade_srn.errors import DataError
from cascade_srn.schema import Schema
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document


@dataclass(frozen=True)
class Split:
    """The documents of one path, and the account of reading them."""

    name: str
    path: str
    documents: list[Document]
    report: ReadReport
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """What a run folder says of it."""
        report = self.report
        return {
            "path": self.path,
            "sha256": self.sha256,
            "documents": report.documents,
            "sentences": report.sentences,
            "words": sum(len(sentence) for document in self.documents for sentence in document.sentences),
            "entities": report.entities,
            "relations": report.relations,
            "skipped": dict(report.skipped),
            "noted": dict(report.noted),
        }


@dataclass(frozen=True)
class Corpus:
    """All splits of a recipe, and the labels to learn."""

    splits: dict[str, Split]
    schema: Schema

    @property
    def train(self) -> list[Document]:
        """What is learned from."""
        return self.splits["train"].documents

    @property
    def dev(self) -> list[Document]:
        """What the best weights are chosen on; none where the recipe names none."""
        return self.splits["dev"].documents if "dev" in self.splits else []

    @property
    def test(self) -> list[Document]:
        """What is scored once, at the end; none where the recipe names none."""
        return self.splits["test"].documents if "test" in self.splits else []

    def to_dict(self) -> dict[str, Any]:
        """What a run folder says of it."""
        return {"schema": self.schema.to_dict()} | {name: split.to_dict() for name, split in self.splits.items()}


def read_corpus(settings: DataSettings) -> Corpus:
    """Read everything that a recipe names."""
    # Missing files first, all splits: nobody wants to hear of a mistyped test path after reading the rest.
    for name, path in (*settings.splits.items(), ("schema", settings.schema)):
        if path is not None and not Path(path).exists():
            raise DataError(
                f"data.{name} is {path!r}, which does not exist; check the path and the working folder, or give "
                f"another one by data.{name}=…"
            )
    splits = {name: _read(name, path, settings) for name, path in settings.splits.items()}
    if not any(len(sentence) for document in splits["train"].documents for sentence in document.sentences):
        raise DataError(
            f"data.train, {settings.train!r}, holds no sentence with words; give annotated sentences to learn from"
        )
    if settings.schema is not None:
        schema = read_schema(settings.schema)
    else:
        # All splits: a label that only dev has must count there, as one that is missed.
        documents = [document for split in splits.values() for document in split.documents]
        schema = Schema.from_documents(documents, symmetric=settings.symmetric)
    return Corpus(splits, schema)


def _read(name: str, path: str, settings: DataSettings) -> Split:
    stream = read_documents(
        path, settings.format, strict=not settings.skip_malformed, align=cast(Align, settings.align)
    )
    documents = list(stream)
    return Split(name, path, documents, stream.report, checksum(Path(path)))


def checksum(path: Path) -> str:
    """The SHA-256 of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    if path.is_dir():
        for member in sorted(file for file in path.rglob("*") if file.is_file()):
            digest.update(f"{member.relative_to(path).as_posix()} {checksum(member)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
