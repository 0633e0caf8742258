"""Read-only SQL on a graph for clients that are not trusted: no files, no settings, limits on rows, time and memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from cascade_srn.apps.graph.reader import distinct_names
from cascade_srn.apps.graph.store import DATABASE, read_record
from cascade_srn.apps.graph.tables import load_library
from cascade_srn.config import require_range
from cascade_srn.errors import DataError

MAX_ROWS, MAX_CELL = 1000, 4000
# Applied in this order. The last two cannot be undone: no file can be opened, and no setting changed.
_SETTINGS = (
    "SET memory_limit = '1GB'",
    "SET threads = 2",
    "SET max_temp_directory_size = '0GB'",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class SafeSql:
    """Answers single ``SELECT`` statements on the tables of a graph. Methods may be called by several threads.

    Args:
        folder: Folder of the graph.
        seconds: Time after which a query is stopped.

    Raises:
        DataError: The folder is no graph, or is damaged.
    """

    def __init__(self, folder: str | Path, *, seconds: float = 5.0) -> None:
        read_record(folder)
        self._seconds = seconds
        self._duckdb = load_library("duckdb")
        path = str((Path(folder) / DATABASE).resolve()).replace("'", "''")
        # A database in memory has its own settings, so that other readers of the file keep theirs.
        self._connection = self._duckdb.connect()
        try:
            self._connection.execute(f"ATTACH '{path}' AS graph (READ_ONLY)")
            for setting in _SETTINGS:
                self._connection.execute(setting)
        except self._duckdb.Error as error:
            self._connection.close()
            raise DataError(f"{folder} cannot be opened ({_first_line(error)})", "Build the graph again") from error

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def query(self, sql: str, *, limit: int = 100) -> dict[str, Any]:
        """Run a query.

        Args:
            sql: One ``SELECT`` statement in DuckDB's SQL.
            limit: Most rows to return.

        Returns:
            ``rows``, and ``truncated``: whether there are more rows, or texts were cut.

        Raises:
            DataError: It is not a single ``SELECT``, is not valid, opens a file, or takes too long.
        """
        require_range("limit", limit, 1, MAX_ROWS)
        try:
            statements = self._duckdb.extract_statements(sql)
        except self._duckdb.Error as error:
            raise DataError(f"the query is not valid ({_first_line(error)})", "Correct it") from error
        if len(statements) != 1 or statements[0].type != self._duckdb.StatementType.SELECT:
            raise DataError("the query is not a single SELECT statement", "Ask for rows of one query")
        with self._connection.cursor() as cursor:
            cursor.execute("USE graph")
            stopped = threading.Event()

            def stop() -> None:
                stopped.set()
                cursor.interrupt()

            timer = threading.Timer(self._seconds, stop)
            timer.start()
            try:
                cursor.execute(statements[0])
                names = distinct_names([column[0] for column in cursor.description or ()])
                found = cursor.fetchmany(limit + 1)
            except (self._duckdb.Error, RuntimeError) as error:
                if stopped.is_set():
                    raise DataError(f"the query took more than {self._seconds:g} s", "Ask for less") from error
                raise DataError(f"the query failed ({_first_line(error)})", "Correct it") from error
            finally:
                timer.cancel()
        cells = [[_plain(value) for value in row] for row in found[:limit]]
        is_cut = any(cut for row in cells for _, cut in row)
        rows = [dict(zip(names, (value for value, _ in row), strict=True)) for row in cells]
        return {"rows": rows, "truncated": len(found) > limit or is_cut}


def _plain(value: Any) -> tuple[Any, bool]:
    """Return a value of JSON, and whether it was cut."""
    if isinstance(value, bool | int | float) or value is None:
        return (value, False) if value == value else (None, False)
    text = str(value)
    return text[:MAX_CELL], len(text) > MAX_CELL


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
