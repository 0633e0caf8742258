"""Run the command line with ``python -m cascade_srn``."""

from cascade_srn.cli import main

main()
