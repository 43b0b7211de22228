"""The dataset of the interventions on adjoint states: does their decay cause the failure to
learn?
"""

from study.results.schema import Dimension, Schema, Variable

_RUN = ("cell", "location", "treatment", "replicate")

INTERVENTIONS = Schema(
    "interventions/1",
    coordinates={
        "cell": Dimension("architecture", "1"),
        "location": Dimension("where in a sequence the rows of the image stand", "1"),
        "treatment": Dimension("what happens to the adjoint state between two time steps", "1"),
        "replicate": Dimension("replicate: initial weights and batches of its own", "1"),
        "stage": Dimension("before or after training", "1"),
    },
    variables={
        "test_accuracy": Variable(
            _RUN, "float64", "accuracy on the test part after training", "share"
        ),
        "validation_accuracy": Variable(
            _RUN,
            "float64",
            "accuracy on the validation part after training",
            "share",
        ),
        "train_loss": Variable(
            _RUN, "float64", "mean loss of the last tenth of the batches", "nat"
        ),
        "own_metric": Variable(
            (*_RUN, "stage"),
            "float64",
            "adjoint metric of ordinary backpropagation: log10 of the norm of the first adjoint "
            "state over that of the last, median over test sequences",
            "1",
        ),
        "treated_metric": Variable(
            (*_RUN, "stage"),
            "float64",
            "adjoint metric under the treatment, median over test sequences",
            "1",
        ),
        "chance": Variable(
            _RUN, "float64", "share of the most frequent class on the test part", "share"
        ),
        "test_sequences": Variable(_RUN, "int64", "sequences in the test part", "1"),
        "status": Variable(_RUN, "int64", "how training ended", "1"),
    },
    title="Interventions on adjoint states in the backward pass, the forward pass unchanged",
    references="L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, 2024, "
    "chapter 3, whose tenet they test",
)
