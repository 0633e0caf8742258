"""Wall time of the explorer's answers about a graph, with its largest nodes.

Run it from the root of the repository:

    python tools/graph_answers.py GRAPH [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from fastapi.testclient import TestClient

from cascade_srn.apps.graph import open_graph
from cascade_srn.apps.graph.explorer.app import create_explorer

N_HUBS = 40


def questions(hubs: list[str], years: dict[str, int]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return description, path and parameters of each question."""
    first, second, five = hubs[0], hubs[1], hubs[:5]
    typed = {"head_type": "Method", "tail_type": "Task", "relation": "USED-FOR", "by_year": True, "evidence": 1}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("overview", "overview", {}),
        ("search for a word", "search", {"q": "language"}),
        ("search for a letter", "search", {"q": "a"}),
        ("search inside names", "search", {"q": "e model"}),
        ("largest node", "node", {"node": first}),
        ("evidence", "evidence", {"edge": 0}),
        ("communities", "communities", {}),
        ("triples by year with evidence", "triples", typed),
        ("triples, a part of a name", "triples", {"head": "*model*", "tail": "*"}),
    ]
    for name, path, parameters in (
        ("around the largest node", "neighbourhood", {"node": first}),
        (f"around {len(hubs)} nodes", "neighbourhood", {"node": hubs}),
        ("path", "path", {"start": first, "end": second}),
        ("all triples", "triples", {}),
        ("all triples by year", "triples", {"by_year": True}),
        ("trends of 5 nodes", "trends", {"node": five}),
        (f"trends of {len(hubs)} nodes", "trends", {"node": hubs}),
        ("ranking", "ranking", {}),
        ("ranking of methods", "ranking", {"type": "Method"}),
        ("ranking around a node", "ranking", {"node": first}),
    ):
        asked += [(name, path, parameters), (f"{name}, some years", path, parameters | years)]
    return asked


def main() -> None:
    """Print a row for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    given = parser.parse_args()
    graph = open_graph(given.graph)
    rows = graph.query(f"SELECT node FROM nodes ORDER BY degree DESC, node LIMIT {N_HUBS}")
    if graph.years is None:
        parser.error("the documents of this graph have no years")
    middle = (graph.years["first"] + graph.years["last"]) // 2
    years = {"first_year": middle - 2, "last_year": middle + 2}
    client = TestClient(create_explorer(graph), base_url="http://127.0.0.1")
    print(f"{'median s':>9}{'worst s':>9}{'bytes':>9}  question")
    for name, path, parameters in questions([row["node"] for row in rows], years):
        seconds = []
        for _ in range(given.repeats):
            start = time.perf_counter()
            answer = client.get(f"/api/{path}", params=parameters)
            seconds.append(time.perf_counter() - start)
            answer.raise_for_status()
        print(f"{statistics.median(seconds):>9.3f}{max(seconds):>9.3f}{len(answer.content):>9}  {name}", flush=True)


if __name__ == "__main__":
    main()
