"""File formats that data sets come in, read into plain arrays; every refusal is one sentence
with its place.
"""


class FormatError(ValueError):
    """A file does not hold what its format promises."""
