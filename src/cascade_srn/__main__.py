"""Run the command line with ``python -m cascade_srn``."""

import atexit
import gc
import sys


def main() -> None:
    """Run a command and exit with its code, which is 130 for Ctrl-C, also while modules are imported."""
    atexit.register(_skip_collections)
    try:
        from cascade_srn.cli import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


def _skip_collections() -> None:
    """Skip the garbage collections at exit, which take a fifth of the time of the help.

    Libraries of models and databases may need them: some print their objects that are left.
    """
    if not {"numpy", "duckdb"} & sys.modules.keys():
        gc.freeze()


if __name__ == "__main__":
    main()
