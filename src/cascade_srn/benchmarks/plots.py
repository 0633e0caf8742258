"""The growth benchmark as a picture; matplotlib is imported here, and only when a picture is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cascade_srn.errors import CascadeError

COLOUR = "#2a6fb0"


def require_matplotlib() -> None:
    """Refuse before anything is measured, rather than after."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise CascadeError(
            "the plot needs matplotlib, which is not installed; install it by pip install 'cascade-srn[report]', "
            "or pass --no-plot"
        ) from error


def plot_growth(result: dict[str, Any], path: str | Path) -> Path:
    """Draw each series of a growth result (as of its JSON) over logarithmic axes, and return the path."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    series = list(dict.fromkeys(row["series"] for row in result["rows"]))
    figure = Figure(figsize=(4.2 * len(series), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, len(series), squeeze=False)[0], series, strict=True):
        points = sorted((row["size"], 1000 * row["median_s"]) for row in result["rows"] if row["series"] == name)
        sizes, times = zip(*points, strict=True)
        axes.loglog(sizes, times, marker="o", color=COLOUR, linewidth=1.5)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.set_ylabel("time, ms")
        axes.grid(alpha=0.3)
        exponent = result["summary"]["exponents"].get(name)
        if exponent is not None:
            axes.set_title(f"power {exponent['overall']:.2f}, at the end {exponent['final']:.2f}", fontsize=10)
    settings, environment = result["settings"], result["environment"]
    hardware = environment["gpu"] or environment["cpu"]
    figure.suptitle(f"{settings['preset']}, {environment['precision']}, {hardware}", fontsize=10)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target
