"""File formats of data sets, read into plain arrays.

Every refusal is one sentence that names the file and the position in it.
"""


class FormatError(ValueError):
    """A file does not hold what its format promises."""
