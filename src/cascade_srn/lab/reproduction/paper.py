"""Published figures of the paper: percentages, and sentences per second.

Comments name the ``\\label`` of each table in the LaTeX source. Rows have the names of the paper. ``ner`` and ``re``
are micro F1 on the test set of SciERC with SciBERT, ``ace05_…`` the same on ACE05 with ALBERT. The paper reports no
standard deviations.
"""

from collections.abc import Mapping

Figures = Mapping[str, float]

# \label{tab:main_result}, "Main results (%): F1 scores on test splits of ACE05 and SciERC".
MAIN_RESULT: Mapping[str, Figures] = {
    "Structured Perceptron": {"ace05_ner": 80.8, "ace05_re": 49.5},
    "SPTree": {"ace05_ner": 83.4, "ace05_re": 55.6},
    "Multi-turn QA": {"ace05_ner": 84.8, "ace05_re": 60.2},
    "SPE": {"ace05_ner": 87.2, "ace05_re": 63.2, "ner": 68.0, "re": 34.6},
    "Table-Sequence": {"ace05_ner": 89.5, "ace05_re": 64.3},
    "PURE": {"ace05_ner": 89.7, "ace05_re": 65.6, "ner": 66.6, "re": 35.6},
    "PFN": {"ace05_ner": 89.0, "ace05_re": 66.8, "ner": 66.8, "re": 38.4},
    "Cascade-SRN (Late fusion)": {"ace05_ner": 89.4, "ace05_re": 65.9, "ner": 68.6, "re": 36.7},
    "Cascade-SRN (Early fusion)": {"ace05_ner": 89.8, "ace05_re": 67.1, "ner": 69.2, "re": 38.7},
}

# \label{tab:ablation}, "Ablation study results", on SciERC.
ABLATION: Mapping[str, Figures] = {
    "SRN": {"ner": 69.2, "re": 38.7},
    "BiSRN": {"ner": 69.1, "re": 36.8},
    "BiLSTM": {"ner": 68.2, "re": 36.5},
    "Entity+Subject": {"ner": 69.2, "re": 38.7},
    "Subject": {"ner": 66.2, "re": 35.6},
    "golden entity": {"ner": 69.2, "re": 38.7},
    "golden subject": {"ner": 68.1, "re": 33.7},
    "Joint": {"ner": 69.2, "re": 38.7},
    "Independent": {"ner": 67.5},
}

# \label{tab:entity}, "Entity prediction results on different entity groups".
_GROUPED = tuple(
    f"{corpus}{group}_{figure}"
    for corpus in ("", "ace05_")
    for group in ("in", "out")
    for figure in ("precision", "recall", "f1")
)
ENTITY: Mapping[str, Figures] = {
    name: dict(zip(_GROUPED, figures, strict=True))
    for name, figures in {
        "PFN": (78.0, 71.1, 74.4, 38.9, 61.7, 47.8, 95.9, 92.1, 94.0, 85.8, 86.9, 86.3),
        "Cascade-SRN (late fusion)": (82.1, 71.7, 76.5, 39.5, 66.2, 49.5, 95.7, 91.9, 93.8, 86.2, 87.8, 87.0),
        "Cascade-SRN (early fusion)": (82.0, 70.3, 75.7, 44.5, 61.5, 51.6, 95.4, 92.3, 93.8, 86.5, 88.1, 87.3),
    }.items()
}

# \label{tab:strategies}, "Comparison of F1 performance (%) and inference speed on SciERC test sets": one NVIDIA
# GeForce 2080Ti, batches of 32 sentences.
STRATEGIES: Mapping[str, Figures] = {
    "early fusion": {"ner": 69.2, "re": 38.7, "speed": 9.04},
    "late fusion": {"ner": 68.6, "re": 36.7, "speed": 295.04},
}

# \label{tab:encoder}, "Comparison results of PFN and SRN under a two-task joint framework", on SciERC.
ENCODER: Mapping[str, Figures] = {"PFN": {"ner": 66.8, "re": 38.4}, "Table-SRN": {"ner": 67.8, "re": 38.3}}

# \label{fig:error}, "Distribution of six types of relation extraction errors on SciERC test set": a picture
# without numbers. The text says which errors are more frequent and which less.
