"""File formats of the sources, read into plain arrays.

Every error message is one sentence that names the file and, if there is one, the line.
"""


class FormatError(ValueError):
    """A file does not follow its format."""
