"""The service under load: many clients at once, every answer checked.

    python benchmarks/serve.py --model MODEL [--clients 1000] [--seconds 30] [--help]

Costs --seconds and about half a minute more on two CPU cores.
"""

from cascade_srn.benchmarks.serve import main

main()
