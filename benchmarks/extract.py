"""Extraction end to end, beside the bare encoder and a BiLSTM.

    python benchmarks/extract.py [--device cuda] [--help]

Costs about a minute with the fresh small encoder on two CPU cores. With --encoder E it takes longer in proportion;
--presets, --sentences and --repeats make it shorter.
"""

from cascade_srn.benchmarks.extract import main

main()
