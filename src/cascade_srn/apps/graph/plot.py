"""Draw how often nodes are mentioned over the years. Needs the extra ``report``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError, require
from cascade_srn.storage.atomic import replacing


def plot_trends(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the rows of ``Graph.trends`` as a line for each node.

    Args:
        rows: The rows.
        path: The picture to write. Its suffix is the format: .svg, .png or .pdf.

    Raises:
        ConfigError: The suffix is another one.
        MissingExtraError: matplotlib is not installed.
    """
    format = Path(path).suffix.lower().removeprefix(".")
    if format not in ("svg", "png", "pdf"):
        raise ConfigError(f"{path} is no .svg, .png or .pdf file", "Choose one of these endings", option="plot")
    figure = require("matplotlib.figure", extra="report").Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for node in dict.fromkeys(row["node"] for row in rows):
        own = [row for row in rows if row["node"] == node]
        years, shares = [row["year"] for row in own], [100 * row["share"] for row in own]
        axes.plot(years, shares, marker="o", markersize=4, label=own[0]["name"].replace("$", r"\$"))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("documents of the year, %")
    axes.grid(alpha=0.3)
    if rows:
        axes.legend(frameon=False)
    with replacing(Path(path)) as handle:
        figure.savefig(handle, format=format, dpi=150)
