"""Search for the text that costs the most CPU time or memory, compared with ordinary text.

    python benchmarks/worst_text.py [--model M] [--seconds 900] [--help]

Takes about 15 minutes on two CPU cores; --seconds and --characters make it shorter.
"""

from cascade_srn.benchmarks.worst_text import main

main()
