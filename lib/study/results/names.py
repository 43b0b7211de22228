"""Labels of architectures, data sets and publications; colors and markers of architectures.

The labels are for the factorial experiment and for the pages of the cells. Networks of a group have
labels of their own. An architecture that is not listed keeps its name in this project, and is drawn
as a gray cross.
"""

from dataclasses import dataclass

LOOKS = {
    # Okabe and Ito's palette for the factorial study: distinct in any common color vision.
    "rnn": ("#000000", "o"),
    "lstm": ("#E69F00", "s"),
    "gru": ("#56B4E9", "D"),
    "lipschitz": ("#009E73", "^"),
    "antisymmetric": ("#0072B2", "v"),
    "exponential": ("#D55E00", "P"),
    "unicornn": ("#CC79A7", "X"),
    # Tol's muted palette, then colors far from all others in any kind of color vision.
    "sru": ("#882255", "p"),
    "indrnn": ("#999933", "d"),
    "cornn": ("#332288", "h"),
    "lu_rnn": ("#117733", "8"),
    "inverse_rnn": ("#AA4499", "*"),
    "lem": ("#8800EE", "H"),
    "irnn": ("#442200", "<"),
    "chrono_lstm": ("#99BB77", ">"),
    "linear_rnn": ("#992200", "o"),
    "dt_lstm": ("#8866EE", "^"),
    "fastgrnn": ("#773333", ">"),
    "fastrnn": ("#EE0055", "<"),
    "gated_antisymmetric": ("#550044", "^"),
    "lru": ("#661100", "d"),
    "mingru": ("#AA7700", "p"),
}
"""Color and marker of the architectures."""
OTHERS = ("#777777", "x")
"""Color and marker of an architecture that is not listed yet."""
LABELS = {
    "antisymmetric": "Antisymmetric RNN",
    "beats_short": "Beats",
    "chrono_lstm": "chrono-LSTM",
    "cifar10": "CIFAR10",
    "cornn": "coRNN",
    "digits": "Digits",
    "dsa19": "DSA-19",
    "dt_lstm": "dt-LSTM",
    "eigenworms": "EigenWorms",
    "exponential": "Exponential RNN",
    "fashion_mnist": "Fashion MNIST",
    "fastgrnn": "FastGRNN",
    "fastrnn": "FastRNN",
    "gated_antisymmetric": "Gated antisymmetric RNN",
    "gru": "GRU",
    "har2": "HAR-2",
    "heart_rate": "Heart rate",
    "heart_rate_by_patient": "Heart rate, by patient",
    "imdb": "IMDB",
    "imdb_ratings": "IMDB, ratings",
    "yelp5": "Yelp, five stars",
    "ucr_worms": "UCR Worms",
    "imdb_vectors": "IMDB, word vectors",
    "indrnn": "IndRNN",
    "inverse_rnn": "Inverse RNN",
    "irnn": "iRNN",
    "keywords12": "Google-12",
    "keywords12_energies": "Google-12, log energies",
    "keywords30": "Google-30",
    "lem": "LEM",
    "linear_rnn": "Linear RNN",
    "lipschitz": "Lipschitz RNN",
    "lru": "LRU",
    "lstm": "LSTM",
    "lu_rnn": "LU RNN",
    "markov_characters": "Markov characters",
    "markov_reviews": "Markov reviews",
    "markov_words": "Markov words",
    "mingru": "minGRU",
    "mnist": "MNIST",
    "ptb_characters": "Penn Treebank, characters",
    "ptb_words": "Penn Treebank, words",
    "respiratory_rate": "Respiratory rate",
    "reuters": "Reuters",
    "rnn": "Basic RNN",
    "sru": "SRU",
    "switching_short": "Switching series",
    "tone_words_short": "Tone words",
    "unicornn": "UnICORNN",
}
"""How the papers write architectures and data sets."""
NAMED_COLUMNS = ("architecture", "dataset", "method")
"""Columns of tables whose values `label` writes as in the papers."""


def label(name: str) -> str:
    """Return how the papers write an architecture or data set.

    Parameters
    ----------
    name
        Its name in this project.

    Returns
    -------
    str
        Unknown names stay as they are.
    """
    return LABELS.get(name, name)


def column_words(name: object) -> object:
    """Return the name of a column as readers see it.

    Parameters
    ----------
    name
        Its name in a CSV file; anything but a text is returned as it is.

    Returns
    -------
    object
        Its words.

    Examples
    --------
    >>> column_words("parts_rejected"), column_words(0.01)
    ('parts rejected', 0.01)
    """
    if not isinstance(name, str):
        return name
    return name.replace("_", " ")


def color_of(architecture: str) -> str:
    """Return the color of an architecture, the same in every figure.

    Parameters
    ----------
    architecture
        Its name.

    Returns
    -------
    str
        A Matplotlib color.
    """
    return LOOKS.get(architecture, OTHERS)[0]


def marker_of(architecture: str) -> str:
    """Return the marker of an architecture, the same in every figure.

    Parameters
    ----------
    architecture
        Its name.

    Returns
    -------
    str
        A Matplotlib marker.
    """
    return LOOKS.get(architecture, OTHERS)[1]


@dataclass(frozen=True)
class Publication:
    """One of the works whose experiments are repeated here.

    Attributes
    ----------
    name : str
        What readers call it.
    citation : str
        Authors, title and year.
    address : str
        Where it can be read; empty if it is not on the web.
    """

    name: str
    citation: str
    address: str = ""


PUBLICATIONS = {
    "dissertation": Publication(
        "Dissertation",
        "L. Johnston, Learning Sequential Patterns with Recurrent Neural Networks, "
        "University of Wisconsin–Madison, 2024",
    ),
    "unicornn": Publication(
        "UnICORNN",
        "T. K. Rusch and S. Mishra, UnICORNN: A recurrent model for learning very long time "
        "dependencies, report and ICML 2021",
        "https://arxiv.org/abs/2103.05487",
    ),
    "lem": Publication(
        "LEM",
        "T. K. Rusch, S. Mishra, N. B. Erichson and M. W. Mahoney, Long Expressive Memory for "
        "Sequence Modeling, 2021",
        "https://arxiv.org/abs/2110.04744",
    ),
    "irnn": Publication(
        "iRNN",
        "A. Kag, Z. Zhang and V. Saligrama, Incremental RNN: A Dynamical View, 2019",
        "https://arxiv.org/abs/1908.08574",
    ),
}
"""Publications by their name in ``data/published``; UnICORNN has two versions."""
