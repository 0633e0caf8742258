"""Run the command line with ``python -m cascade_srn``."""

import sys


def main() -> None:
    """Run a command and exit with its code, which is 130 for Ctrl-C, also while modules are imported."""
    try:
        from cascade_srn.cli import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
