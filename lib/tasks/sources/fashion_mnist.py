"""Fashion MNIST: H. Xiao, K. Rasul, R. Vollgraf 2017, 60,000 + 10,000 images of 28 x 28 pixels."""

import xarray as xr

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._fetch import fetch
from lib.tasks.sources._idx import read_parts
from lib.tasks.sources._registry import source

URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}


@source
def fashion_mnist() -> xr.Dataset:
    """Return Fashion MNIST as sequences of 784 pixels, the official split."""
    train, test = read_parts(lambda name: fetch(f"fashion_mnist/{name}", SHA256[name], URL + name))
    return prepared_dataset(
        "fashion_mnist",
        train,
        test,
        kind="pixels",
        source="Xiao, Rasul, Vollgraf: Fashion-MNIST, 2017",
        outputs=10,
        valid_max=255,
    )
