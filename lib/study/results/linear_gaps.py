"""The dataset of Experiment 2.2 (dissertation, section 2.5): which inputs a linear network emphasises on the long time gap task."""

from study.results.schema import Schema

_RUN = ("place", "orthogonality", "replicate")

LINEAR_GAPS = Schema(
    "linear_gaps/1",
    coordinates={
        "place": ("deciding input t* of the task", "1"),
        "orthogonality": ("weight of the soft orthogonal penalty", "1"),
        "replicate": ("replicate: initial weights and sequences of its own", "1"),
        "time": ("time t of an input, from 1", "1"),
    },
    variables={
        "emphasis": ((*_RUN, "time"), "float64", "V W^(T-t) R of (2.17)", "1"),
        "accuracy": (_RUN, "float64", "share of test sequences classified correctly", "1"),
        "loss": (_RUN, "float64", "mean logistic loss on the test sequences", "nat"),
        "departure": (_RUN, "float64", "Frobenius norm of W'W - I", "1"),
        "status": (_RUN, "int64", "how training ended", "1"),
    },
)
