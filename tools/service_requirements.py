"""Print the requirements of the service, with the lowest or the newest versions that pyproject.toml allows.

`make test-versions` installs them in an environment, shares all other libraries of this environment with it, and runs
the tests of the service there:

    python tools/service_requirements.py lowest
    python tools/service_requirements.py share build/lowest
"""

import re
import sys
import sysconfig
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(choice: str) -> list[str]:
    """Return the requirements of the extra ``serve``, and of the client of its tests."""
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    allowed = [*extras["serve"], *(each for each in extras["dev"] if each.startswith("httpx"))]
    return [re.sub(r">=([^,]+).*", r"==\1", each) for each in allowed] if choice == "lowest" else allowed


def share(environment: Path) -> None:
    """Let an environment find the libraries of this one after its own."""
    (own,) = environment.glob("lib/python*/site-packages")
    # Unlike a path alone, this also reads the files of editable installs.
    (own / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")


if __name__ == "__main__":
    if sys.argv[1] == "share":
        share(Path(sys.argv[2]))
    else:
        print("\n".join(requirements(sys.argv[1])))
