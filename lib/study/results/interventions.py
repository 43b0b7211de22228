"""The dataset of the interventions on adjoint states: does their decay cause the failure to learn?"""

from study.results.schema import Schema

_RUN = ("cell", "location", "treatment", "replicate")

INTERVENTIONS = Schema(
    "interventions/1",
    coordinates={
        "cell": ("architecture", "1"),
        "location": ("where in a sequence the rows of the image stand", "1"),
        "treatment": ("what happens to the adjoint state between two time steps", "1"),
        "replicate": ("replicate: initial weights and batches of its own", "1"),
        "stage": ("before or after training", "1"),
    },
    variables={
        "test_accuracy": (_RUN, "float64", "accuracy on the test part after training", "share"),
        "validation_accuracy": (
            _RUN,
            "float64",
            "accuracy on the validation part after training",
            "share",
        ),
        "train_loss": (_RUN, "float64", "mean loss of the last tenth of the batches", "nat"),
        "own_metric": (
            (*_RUN, "stage"),
            "float64",
            "adjoint metric of ordinary backpropagation: log10 of the norm of the first adjoint "
            "state over that of the last, median over test sequences",
            "1",
        ),
        "treated_metric": (
            (*_RUN, "stage"),
            "float64",
            "adjoint metric under the treatment, median over test sequences",
            "1",
        ),
        "chance": (_RUN, "float64", "share of the most frequent class on the test part", "share"),
        "test_sequences": (_RUN, "int64", "sequences in the test part", "1"),
        "status": (_RUN, "int64", "how training ended", "1"),
    },
)
