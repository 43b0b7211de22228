"""Schema of experiment 2.2 (dissertation, section 2.5).

Which inputs does a linear network emphasize on the long time gap task?
"""

from study.results.schema import Dimension, Schema, Variable

_RUN = ("place", "orthogonality", "replicate")

LINEAR_GAPS = Schema(
    "linear_gaps/1",
    coordinates={
        "place": Dimension("time step t* of the input that decides the label", "step"),
        "orthogonality": Dimension("weight of the soft orthogonal penalty", "1"),
        "replicate": Dimension("replicate: has its own initial weights and sequences", "1"),
        "time": Dimension("time t of an input, from 1", "step"),
    },
    variables={
        "emphasis": Variable((*_RUN, "time"), "float64", "V W^(T-t) R of (2.17)", "1"),
        "accuracy": Variable(_RUN, "float64", "share of test sequences classified correctly", "1"),
        "loss": Variable(_RUN, "float64", "mean logistic loss on the test sequences", "nat"),
        "departure": Variable(
            _RUN, "float64", "Frobenius norm of W'W - I", "1", "0: W is orthogonal"
        ),
        "status": Variable(_RUN, "int64", "how the run ended", "1"),
    },
    title="Linear networks on the long time gap task",
    references="L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, 2024, "
    "section 2.5, experiment 2.2",
)
