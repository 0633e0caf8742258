"""``python -m cascade_srn.cli``: the command line without its installed script."""

from cascade_srn.cli import main

main()
