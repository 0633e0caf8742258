"""Print how much disk space the dependencies of cascade-srn take, without extras and for each extra.

Run it in an environment with all extras, from the root of the repository:

    python tools/install_sizes.py

The size of an extra is that of the packages it adds to a plain install. A package that two extras share counts in both.
Sizes are sums of the files that each installed package lists, in megabytes (10^6 bytes).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
LARGEST = 3


def main() -> None:
    """Print one line for the plain install and one for each extra."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    plain = required_packages(project["dependencies"])
    print_row("plain install", plain)
    for extra in project["optional-dependencies"]:
        print_row(f"[{extra}]", required_packages(requirements_of(extra, project)) - plain)


def requirements_of(extra: str, project: dict[str, Any]) -> list[str]:
    """Return the requirements of an extra, with those of the extras that it includes."""
    found: list[str] = []
    for text in project["optional-dependencies"][extra]:
        requirement = Requirement(text)
        included = requirement.extras if requirement.name == project["name"] else ()
        found += [text for name in sorted(included) for text in requirements_of(name, project)] if included else [text]
    return found


def required_packages(requirements: Iterable[str]) -> set[str]:
    """Return the names of the required packages, and of those that they require.

    Raises:
        SystemExit: If one of them is not installed.
    """
    packages: set[str] = set()
    expanded: set[tuple[str, frozenset[str]]] = set()
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in expanded:
            continue
        expanded.add((name, extras))
        packages.add(name)
        try:
            below = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed. Install all extras first: make demo") from None
        pending += [(child, chosen) for child in below for chosen in ("", *extras)]
    return packages


def installed_megabytes(package: str) -> float:
    """Return the size of the files of an installed package."""
    installed = distribution(package)
    paths = (Path(str(installed.locate_file(file))) for file in installed.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def print_row(title: str, packages: set[str]) -> None:
    """Print the total size of some packages, and the largest of them."""
    sizes = sorted(((installed_megabytes(package), package) for package in packages), reverse=True)
    largest = ", ".join(f"{package} {size:.0f}" for size, package in sizes[:LARGEST])
    print(f"{title:13}  {sum(size for size, _ in sizes):6.0f} MB  {largest}")


if __name__ == "__main__":
    main()
