"""CPU seconds of building a graph, of adding documents to it, and of removing some.

Run it from the root of the repository, with a corpus job or JSON lines, and with documents that it does not have:

    OMP_NUM_THREADS=1 python tools/graph_change_cost.py corpus new.jsonl [--remove 100] [--set date_field=year]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cascade_srn.apps.graph import GraphReport, GraphSettings, build, open_graph, remove, update


def measure(step: Callable[[], GraphReport]) -> tuple[float, GraphReport]:
    """Return CPU seconds of a step in user and system mode, with those of child processes, and its report."""
    before = sum(os.times()[:4])
    report = step()
    return sum(os.times()[:4]) - before, report


def main() -> None:
    """Print a table with a row for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("new")
    parser.add_argument("--remove", type=int, default=100, metavar="N")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a text setting of the graph")
    given = parser.parse_args()
    settings = GraphSettings(**dict(pair.split("=", 1) for pair in given.set))
    print(f"{'step':<8}{'documents':>10}{'CPU s':>8}{'share':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        graph, copy = Path(folder) / "graph", Path(folder) / "copy"
        whole, report = measure(partial(build, given.corpus, graph, settings))
        print(f"{'build':<8}{report.counts['documents']:>10,}{whole:>8.1f}{1:>8.3f}", flush=True)
        with open_graph(graph) as opened:
            rows = opened.query("SELECT document_id FROM documents GROUP BY ALL HAVING count(*) = 1 ORDER BY ALL")
        gone = random.Random(0).sample([row["document_id"] for row in rows], given.remove)
        for name, step in (("update", partial(update, copy, given.new)), ("remove", partial(remove, copy, gone))):
            shutil.copytree(graph, copy)
            seconds, report = measure(step)
            n = sum(report.changes.values())
            print(f"{name:<8}{n:>10,}{seconds:>8.1f}{seconds / whole:>8.3f}", flush=True)
            shutil.rmtree(copy)


if __name__ == "__main__":
    main()
