"""The folder of a graph: its tables as Parquet and in a DuckDB file, and how they are written and read.

``graph.json`` has the version, the settings and the counts, and marks a folder as a graph. Needs the extra ``graph``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.reader import FORMS
from cascade_srn.apps.graph.tables import (
    GRAPH_VERSION,
    INDEXES,
    TABLES,
    cast_table,
    load_library,
    table_schema,
    write_table,
)
from cascade_srn.errors import DataError
from cascade_srn.storage.atomic import replacing_folder

if TYPE_CHECKING:
    import pyarrow

RECORD, DATABASE = "graph.json", "graph.duckdb"
_KEY = "graph_version"


def write_graph(
    folder: str | Path,
    tables: Mapping[str, pyarrow.Table],
    record: Mapping[str, Any],
    *,
    overwrite: bool = False,
    add: Callable[[Path], None] = lambda folder: None,
    database: Callable[[Path], bool] = lambda path: False,
) -> None:
    """Write a graph to a folder, which appears when it is complete.

    Args:
        folder: A new or empty folder, or with ``overwrite`` that of another graph.
        tables: A table for each of ``TABLES``, with its columns. The one of links may be left out.
        record: What ``graph.json`` has beside the version and the counts, such as the settings.
        overwrite: Replace an existing graph.
        add: Called with the new folder, to write further files to it.
        database: Called with the path of the database, to write it in another way than from the tables. Returns
            whether it has done so.

    Raises:
        DataError: The folder has other files, or a graph without ``overwrite``.
    """
    check_target(folder, overwrite=overwrite)
    tables = {"links": table_schema("links").empty_table(), **tables}
    with replacing_folder(folder, marker=RECORD, key=_KEY) as fresh:
        # The tables are written beside the database and the other files, by another core.
        with ThreadPoolExecutor(1) as pool:
            written = [
                pool.submit(write_table, cast_table(name, tables[name]), fresh / f"{name}.parquet") for name in TABLES
            ]
            is_written = database(fresh / DATABASE)
            add(fresh)
            for one in written:
                one.result()
        if not is_written:
            _write_database(fresh)
        counts = {name: tables[name].num_rows for name in TABLES}
        content = {_KEY: GRAPH_VERSION, **record, "counts": counts}
        (fresh / RECORD).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise a :class:`DataError` if a graph cannot be written to a folder."""
    check_folder(Path(folder), "a graph", _is_graph, overwrite=overwrite)


def check_folder(folder: Path, kind: str, is_kind: Callable[[Path], bool], *, overwrite: bool) -> None:
    """Raise a :class:`DataError` unless a folder is missing, empty, or of a kind that may be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_kind(folder):
        problem = "contains other files" if folder.is_dir() else "is a file"
        raise DataError(f"{folder} {problem}", "Choose a new or empty folder", option="output")
    if not overwrite:
        raise DataError(f"{folder} is {kind} already", "Choose another folder, or replace it", option="overwrite")


def _write_database(folder: Path) -> None:
    connection = load_library("duckdb").connect(str(folder / DATABASE))
    try:
        for name in TABLES:
            source = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{source}')")
        connection.execute(f"CREATE TABLE forms AS {FORMS.format(where='true')}")
        for table, column in INDEXES:
            connection.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


def _is_graph(folder: Path) -> bool:
    try:
        return isinstance(read_record(folder), dict)
    except DataError:
        return False


def read_record(folder: str | Path) -> dict[str, Any]:
    """Read ``graph.json``.

    Raises:
        DataError: The folder is no graph, or one of a later version of the package.
    """
    path = Path(folder) / RECORD
    hint = "Give a folder that `graph build` has written"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "has no graph.json" if Path(folder).is_dir() else f"cannot be read ({error.strerror})"
        raise DataError(f"{folder} {reason}", hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error})", hint) from error
    if not isinstance(record, dict) or _KEY not in record:
        raise DataError(f"{path} is not that of a graph", hint)
    if record[_KEY] != GRAPH_VERSION:
        raise DataError(
            f"{path} has the version {record[_KEY]!r}, but this release reads version {GRAPH_VERSION}",
            "Build the graph again",
        )
    return record


def open_graph(folder: str | Path) -> Graph:
    """Open a graph for reading.

    Several processes may have the same graph open.

    Args:
        folder: A folder that :func:`cascade_srn.apps.graph.build` has written.

    Raises:
        DataError: The folder is no graph, or is damaged.

    Example:
        >>> with open_graph("graph") as graph:  # doctest: +SKIP
        ...     [node["name"] for node in graph.search("named ent", limit=2)]
        ['named entity recognition', 'named entities']
    """
    record = read_record(folder)
    duckdb = load_library("duckdb")
    path = str(Path(folder) / DATABASE).replace("'", "''")
    while True:
        # Attached, because one process gets the same database for the same path, even if the file was replaced.
        connection = duckdb.connect()
        try:
            connection.execute(f"ATTACH '{path}' AS graph (READ_ONLY)")
        except duckdb.Error as error:
            connection.close()
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{Path(folder) / DATABASE} cannot be opened ({reason})", "Build the graph again"
            ) from error
        before, record = record, read_record(folder)
        if record == before:
            return Graph(Path(folder), record, connection)
        connection.close()  # the graph was replaced between the two
