"""Schema of the interventions on adjoint states (`study.training.interventions`)."""

from study.results.schema import Dimension, Schema, Variable

_RUN = ("cell", "location", "treatment", "replicate")
_DIVERGED = "nan after training if the run diverged"

INTERVENTIONS = Schema(
    "interventions/1",
    coordinates={
        "cell": Dimension("architecture", "1"),
        "location": Dimension("where the rows of the image are in a sequence", "1"),
        "treatment": Dimension("what happens to the adjoint state between two time steps", "1"),
        "replicate": Dimension("replicate: has its own initial weights and batches", "1"),
        "stage": Dimension("before or after training", "1"),
    },
    variables={
        "test_accuracy": Variable(
            _RUN, "float64", "accuracy on the test part after training", "1", _DIVERGED
        ),
        "validation_accuracy": Variable(
            _RUN, "float64", "accuracy on the validation part after training", "1", _DIVERGED
        ),
        "train_loss": Variable(
            _RUN, "float64", "mean loss of the last tenth of the batches", "nat", _DIVERGED
        ),
        "own_metric": Variable(
            (*_RUN, "stage"),
            "float64",
            "adjoint metric of ordinary backpropagation: log10 of the norm of the adjoint state "
            "before the first input over that after the last, median over test sequences",
            "1",
            _DIVERGED,
        ),
        "treated_metric": Variable(
            (*_RUN, "stage"),
            "float64",
            "adjoint metric under the treatment, median over test sequences",
            "1",
            _DIVERGED,
        ),
        "chance": Variable(
            _RUN, "float64", "share of the most frequent class on the test part", "1"
        ),
        "test_sequences": Variable(_RUN, "int64", "sequences in the test part", "1"),
        "status": Variable(_RUN, "int64", "how training ended", "1"),
    },
    title="Interventions on adjoint states in the backward pass, the forward pass unchanged",
    references="L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, 2024, "
    "chapter 3, whose tenet they test",
)
