"""Put results of ``cascade-srn benchmark teach`` into the documentation: results file, picture and table.

    python tools/teach_table.py results.json

copies the file to ``benchmarks/results/teach/crossre.json``, draws ``docs/pictures/teach.svg`` and replaces the table
of ``docs/teach-simulation.md``. Without an argument, it does so for the file that is there.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from cascade_srn.lab.benchmarks.teach import Teach, plot_teach

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "teach" / "crossre.json"
PAGE = ROOT / "docs" / "teach-simulation.md"
PICTURE = ROOT / "docs" / "pictures" / "teach.svg"
TABLE = re.compile(r"(?<=<!-- table -->\n\n).*?(?=\n\n<!-- end of table -->)", re.DOTALL)
# All rows have the same start, and their number of seeds is in the text.
LEFT_OUT = ("start", "seeds")


def table(result: dict[str, Any]) -> str:
    """Return the rows as Markdown."""
    columns = [column for column in Teach.COLUMNS if column.heading not in LEFT_OUT]
    rows = [[column.heading for column in columns], ["---"] * len(columns)]
    rows += [[column.show(row) for column in columns] for row in result["rows"]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def main() -> None:
    """Write the three files."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else STORED
    content = source.read_text(encoding="utf-8")
    STORED.parent.mkdir(parents=True, exist_ok=True)
    STORED.write_text(content, encoding="utf-8")
    result = json.loads(content)
    page, n_tables = TABLE.subn(lambda _: table(result), PAGE.read_text(encoding="utf-8"))
    assert n_tables == 1, f"{PAGE} has no place for the table"
    PAGE.write_text(page, encoding="utf-8")
    plot_teach(result, PICTURE)


if __name__ == "__main__":
    main()
