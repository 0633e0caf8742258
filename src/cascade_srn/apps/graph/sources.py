"""What a graph was built from: extracted documents and settings, which are kept so that the graph can be changed.

The folder ``sources`` of a graph has what the tables of the graph lack: the entities and relations that are left out,
the sentences, and the paths of files. Texts and other columns of the documents are only in ``documents.parquet``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.incremental import COLUMNS
from cascade_srn.apps.graph.load import Extracted, order_documents, with_status
from cascade_srn.apps.graph.settings import GraphSettings
from cascade_srn.apps.graph.store import read_record
from cascade_srn.apps.graph.tables import load_library, read_table, splice, write_table
from cascade_srn.errors import DataError
from cascade_srn.formats.files import read_stored_json
from cascade_srn.version import __version__

if TYPE_CHECKING:
    import pyarrow

FOLDER, STATE = "sources", "state"
_SETTINGS = "settings.json"
_PARTS = ("sentences", "entities", "relations")
FILES = ("aliases", "merges", "splits", "vocabulary", "schema")


@dataclass(frozen=True)
class GraphSources:
    """Documents and settings of a graph.

    Attributes:
        extracted: The documents.
        settings: The settings, with absolute paths of files.
        follows: The model, settings and files of ``graph sync``; None for other graphs.
    """

    extracted: Extracted
    settings: GraphSettings
    follows: Mapping[str, Any] | None = None

    def write(self, folder: Path, state: Mapping[str, pyarrow.Table]) -> None:
        """Write what the tables of the graph lack to the folder of the graph, with the state of the resolution."""
        (folder / FOLDER).mkdir()
        tables = {name: self.extracted.tables[name] for name in _PARTS}
        tables["documents"] = self.extracted.tables["documents"].select(["version"])
        for name, table in tables.items():
            write_table(table, folder / FOLDER / f"{name}.parquet", "lz4")
        (folder / STATE).mkdir()
        for name, table in state.items():
            write_table(table, folder / STATE / f"{name}.parquet", "lz4")
        content = {"settings": self.settings.to_dict(), "follows": self.follows}
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        (folder / FOLDER / _SETTINGS).write_text(text, encoding="utf-8")


def absolute_files(settings: GraphSettings) -> GraphSettings:
    """Return settings that mean the same files in every working folder."""
    values = settings.to_dict()
    paths = {name: os.path.abspath(values[name]) for name in FILES if values[name]}
    return GraphSettings(**values | paths)


def read_sources(folder: str | Path) -> GraphSources:
    """Read the documents and settings of a graph.

    Raises:
        DataError: The folder is no graph, has no sources, or is damaged, or a file of the settings is missing.
    """
    read_record(folder)
    path = Path(folder) / FOLDER
    if not path.is_dir():
        raise DataError(f"{folder} has no sources, so that it cannot be changed", "Build the graph again")
    pa = load_library("pyarrow")
    content = read_stored_json(path / _SETTINGS, "Build the graph again")
    try:
        settings = GraphSettings.from_dict(content["settings"], str(path / _SETTINGS))
        tables = {name: read_table(path / f"{name}.parquet") for name in _PARTS}
        tables["relations"] = with_status(tables["relations"])
        documents = read_table(Path(folder) / "documents.parquet")
        version = read_table(path / "documents.parquet")["version"]
        tables["documents"] = documents.append_column("version", version)
    except (OSError, KeyError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged ({error})", "Build the graph again") from error
    for name in FILES:
        file = getattr(settings, name)
        if file and not os.path.exists(file):
            raise DataError(
                f"{file}, which the graph was built with, does not exist", "Restore it, or build the graph again"
            )
    return GraphSources(Extracted(tables, ()), settings, content["follows"])


def read_state(folder: str | Path, record: Mapping[str, Any]) -> dict[str, pyarrow.Table] | None:
    """Return the tables of the state and of the graph; None if another version has written them."""
    if record.get("cascade_srn") != __version__ or not (Path(folder) / STATE).is_dir():
        return None
    paths = [Path(folder) / STATE / f"{name}.parquet" for name in COLUMNS]
    paths += [Path(folder) / f"{name}.parquet" for name in ("nodes", "mentions", "edges", "evidence", "merges")]
    return {path.stem: read_table(path) for path in paths}


def combine(old: Extracted, kept: Sequence[bool], new: Extracted | None) -> tuple[Extracted, Any]:
    """Return the documents that are kept and new ones, numbered as in a build from all of them.

    Args:
        old: Documents of a graph. Further tables with a column ``document`` are numbered as well.
        kept: Whether each of them is kept.
        new: Documents to add.

    Returns:
        The documents, and the new number of each old one; -1 if it is not kept.
    """
    np, pa = load_library("numpy"), load_library("pyarrow")
    mask = np.asarray(kept, dtype=bool)
    added = {name: table.slice(0, 0) for name, table in old.tables.items()} if new is None else new.tables
    documents = [old.tables["documents"].filter(pa.array(mask)), added["documents"]]
    found, place = order_documents(pa.concat_tables(documents).drop_columns("document"))
    numbers = np.full(len(mask), -1)
    numbers[mask], new_numbers = place[: mask.sum()], place[mask.sum() :]
    tables = {"documents": found}
    for name, table in old.tables.items():
        if name != "documents":
            rows, new_rows = (part["document"].to_numpy() for part in (table, added[name]))
            keys = ("document", numbers[rows], new_numbers[new_rows])
            tables[name] = splice(table, mask[rows], added[name], [keys])
    return Extracted(tables, () if new is None else new.notes), numbers
