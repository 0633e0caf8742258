"""The training loop: seconds per epoch, and where a step's time goes.

    python benchmarks/train.py [--device cuda] [--help]

Costs three quarters of a minute with the fresh small encoder on two CPU cores. With --encoder E it takes epochs + 2
times what an epoch over --sentences takes, for each preset and batch size.
"""

from cascade_srn.benchmarks.train import main

main()
