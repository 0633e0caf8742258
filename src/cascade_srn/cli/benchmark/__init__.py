"""``cascade-srn benchmark``: the front door to :mod:`cascade_srn.benchmarks`."""

from __future__ import annotations

import typer

from cascade_srn.cli.benchmark.extract import extract
from cascade_srn.cli.benchmark.fuzz import fuzz
from cascade_srn.cli.benchmark.growth import growth
from cascade_srn.cli.benchmark.serve import serve
from cascade_srn.cli.benchmark.srn import srn
from cascade_srn.cli.benchmark.train import train
from cascade_srn.cli.benchmark.worst_text import worst_text

app = typer.Typer(help="Measure what things cost, side by side.", no_args_is_help=True)
for command in (srn, extract, train, growth, serve, fuzz, worst_text):
    app.command()(command)
