"""The SRN against an LSTM of the same widths.

    python benchmarks/srn.py [--device cuda] [--help]

Costs about a minute on two CPU cores.
"""

from cascade_srn.benchmarks.srn import main

main()
