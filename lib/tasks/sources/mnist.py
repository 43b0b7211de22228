"""MNIST: Y. LeCun, C. Cortes, C. J. C. Burges, 60,000 + 10,000 images of 28 x 28 pixels."""

import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import fetch
from lib.tasks.sources._idx import read_parts
from lib.tasks.sources._registry import source

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


@source
def mnist() -> xr.Dataset:
    """Return MNIST as sequences of 784 pixels, the official split."""
    train, test = read_parts(lambda name: fetch(f"mnist/{name}", SHA256[name], URL + name))
    return prepared_dataset(
        "mnist",
        train,
        test,
        kind="pixels",
        source="LeCun, Cortes, Burges: The MNIST database of handwritten digits",
        outputs=10,
        valid_max=255,
    )
