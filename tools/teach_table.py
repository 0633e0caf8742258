"""Put the results of ``cascade-srn benchmark teach`` into the documentation: its table and its picture.

    python tools/teach_table.py

reads all files in ``benchmarks/results/teach``, draws ``docs/pictures/teach.svg`` and replaces the table of
``docs/teach-simulation.md``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cascade_srn.lab.benchmarks.teach import Teach, plot_teach

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "teach"
PAGE = ROOT / "docs" / "teach-simulation.md"
PICTURE = ROOT / "docs" / "pictures" / "teach.svg"
TABLE = re.compile(r"(?<=<!-- table -->\n\n).*?(?=\n\n<!-- end of table -->)", re.DOTALL)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    # The number of seeds is in the text.
    columns = [column for column in Teach.COLUMNS if column.heading != "seeds"]
    shown = [[column.heading for column in columns], ["---"] * len(columns)]
    shown += [[column.show(row) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def main() -> None:
    """Write table and picture."""
    files = sorted(STORED.glob("*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    page, n_tables = TABLE.subn(lambda _: table(rows), PAGE.read_text(encoding="utf-8"))
    assert n_tables == 1, f"{PAGE} has no place for the table"
    PAGE.write_text(page, encoding="utf-8")
    plot_teach({"rows": rows}, PICTURE)


if __name__ == "__main__":
    main()
