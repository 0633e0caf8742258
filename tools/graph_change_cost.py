"""CPU seconds and wall time of building a graph, of adding documents to it, and of removing some.

Run it from the root of the repository, with a corpus job or JSON lines, and with documents that it does not have:

    python tools/graph_change_cost.py corpus new.jsonl [--remove 100] [--set date_field=year]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cascade_srn.apps.graph import GraphReport, GraphSettings, build, open_graph, remove, update


def measure(
    name: str, step: Callable[[], GraphReport], whole: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Run a step, and print its times beside those of the whole.

    Returns:
        CPU seconds in user and system mode, with those of child processes, and seconds of wall time.
    """
    before, started = sum(os.times()[:4]), time.perf_counter()
    report = step()
    seconds = sum(os.times()[:4]) - before, time.perf_counter() - started
    documents = sum(report.changes.values()) or report.counts["documents"]
    shares = "".join(f"{own:>8.1f}{own / first:>8.3f}" for own, first in zip(seconds, whole or seconds, strict=True))
    print(f"{name:<8}{documents:>10,}{shares}", flush=True)
    return seconds


def main() -> None:
    """Print a table with a row for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("new")
    parser.add_argument("--remove", type=int, default=100, metavar="N")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a text setting of the graph")
    given = parser.parse_args()
    settings = GraphSettings(**dict(pair.split("=", 1) for pair in given.set))
    print(f"{'step':<8}{'documents':>10}{'CPU s':>8}{'share':>8}{'wall s':>8}{'share':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        graph, copy = Path(folder) / "graph", Path(folder) / "copy"
        whole = measure("build", partial(build, given.corpus, graph, settings))
        with open_graph(graph) as opened:
            rows = opened.query("SELECT document_id FROM documents GROUP BY ALL HAVING count(*) = 1 ORDER BY ALL")
        gone = random.Random(0).sample([row["document_id"] for row in rows], given.remove)
        for name, step in (("update", partial(update, copy, given.new)), ("remove", partial(remove, copy, gone))):
            shutil.copytree(graph, copy)
            measure(name, step, whole)
            shutil.rmtree(copy)


if __name__ == "__main__":
    main()
