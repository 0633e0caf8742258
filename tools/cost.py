"""Hours and dollars for one million abstracts: ours from stored results, services from published prices.

Run it from the root of the repository; the table of docs/benchmarks.md is its output:

    python tools/cost.py [--documents 1000000] [--words 143]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
# Words of an abstract of the stored results, separated by spaces. Time is proportional to the number of words.
WORDS = 143


@dataclass(frozen=True)
class Machine:
    """A machine with its price in dollars per hour, and a stored run, or documents and seconds of a documented one."""

    name: str
    price: float
    file: str = ""
    run: str = ""
    documents: int = 0
    seconds: float = 0.0

    @property
    def documents_per_second(self) -> float:
        """Speed of the run."""
        if not self.file:
            return self.documents / self.seconds
        rows = json.loads((RESULTS / self.file).read_text(encoding="utf-8"))["rows"]
        (row,) = (row for row in rows if row["run"] == self.run)
        return float(row["documents_per_s"])


@dataclass(frozen=True)
class Service:
    """A service with its prices in dollars per million tokens, and the tokens for an abstract."""

    name: str
    input_price: float
    output_price: float
    input_tokens: int
    output_tokens: int


MACHINES = (
    Machine("two ARM cores (Neoverse-N1)", 0.0816, "corpus-cpu-arm.json", "corpus run 1x2"),
    Machine("two x86 cores (Xeon 2.5 GHz)", 0.0832, "corpus-cpu.json", "corpus run 2x1"),
    Machine("one H200 and 16 cores", 4.00, documents=57_600, seconds=28.5),
)
# An abstract has about 200 tokens. The labels of GLiNER2 take about 60, and the instructions of a language model about
# 400. Its answer has about 20 entities and 9 relations, which is what the bundled model finds, of 15 tokens each.
SERVICES = (
    Service("GLiNER2, Fastino's API", 0.03, 0.0, 260, 0),
    Service("GPT-4o mini, batch", 0.075, 0.30, 600, 435),
    Service("GPT-4o mini", 0.15, 0.60, 600, 435),
    Service("GPT-5.6 Luna, fast mode", 0.40, 2.40, 600, 435),
)


def table(documents: int = 1_000_000, words: int = WORDS) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| extracted by | price | documents/s | hours | dollars |"
    yield "| --- | --- | ---: | ---: | ---: |"
    scale = words / WORDS
    for machine in MACHINES:
        speed = machine.documents_per_second / scale
        hours = documents / speed / 3600
        figures = f"{speed:,.1f} | {hours:,.1f} | {hours * machine.price:,.2f}"
        yield f"| {machine.name} | {machine.price:g} per hour | {figures} |"
    for service in SERVICES:
        cost = service.input_tokens * service.input_price + service.output_tokens * service.output_price
        prices = (
            f"{service.input_price:g} and {service.output_price:g}" if service.output_price else service.input_price
        )
        yield f"| {service.name} | {prices} per million tokens | – | – | {cost * scale * documents / 1e6:,.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Print hours and dollars for a corpus of abstracts.")
    parser.add_argument("--documents", type=int, default=1_000_000, help="number of documents")
    parser.add_argument("--words", type=int, default=WORDS, help="words of a document, separated by spaces")
    options = parser.parse_args()
    print("\n".join(table(options.documents, options.words)))


if __name__ == "__main__":
    main()
