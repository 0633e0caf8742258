"""How extraction's cost grows with sentence length, subjects in a sentence, and corpus size.

    python benchmarks/growth.py [--device cuda] [--help]

Costs about a minute and a half with the fresh small encoder on two CPU cores. Where the encoder is large,
--factors 1,10 makes it much shorter.
"""

from cascade_srn.benchmarks.growth import main

main()
