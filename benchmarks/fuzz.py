"""Ten thousand strange texts through a model: nothing may fail, and every offset must be right.

    python benchmarks/fuzz.py [--model M] [--seed 0] [--help]

Costs about ten minutes with the model that ships with the package on two CPU cores; --texts makes it shorter, --skip
does it in pieces. --service sends the texts to a running `cascade-srn serve` instead.
"""

from cascade_srn.benchmarks.fuzz import main

main()
