"""scikit-learn's handwritten digits: real data that needs no network.

1,797 images of 8 x 8 pixels with 17 levels of grey, from E. Alpaydin and C. Kaynak, *Optical
Recognition of Handwritten Digits*, UCI, 1998 (the test part of that set). There is no official split:
every fourth image is for testing, in the order of the file, in which writers follow each other.
"""

import numpy as np
import xarray as xr
from sklearn.datasets import load_digits

from lib.tasks.prepared import prepared_dataset
from lib.tasks.sources._registry import source

MNIST_LENGTH, NOISE_INPUTS = 784, 1000


@source
def digits() -> xr.Dataset:
    """Return the digits as sequences of 64 pixels."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8)[:, :, None]
    test = np.arange(len(labels)) % 4 == 3
    return prepared_dataset(
        "digits",
        (images[~test], labels[~test]),
        (images[test], labels[test]),
        kind="pixels",
        source="Alpaydin, Kaynak: Optical Recognition of Handwritten Digits, UCI 1998 (scikit-learn)",
        outputs=10,
        valid_max=16,
        # The experiment's noise in proportion: as many inputs as 1,000 are for MNIST's 784.
        noise_inputs=round(NOISE_INPUTS * images.shape[1] / MNIST_LENGTH),
    )
