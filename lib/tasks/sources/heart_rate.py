"""Heart rate: that of BIDMC's windows, split at random as in the texts; see `lib.tasks.sources._bidmc`."""

import xarray as xr

from lib.tasks.sources._bidmc import vital_sign
from lib.tasks.sources._registry import source


@source
def heart_rate() -> xr.Dataset:
    """Return windows of PPG and ECG, (4000, 2), and the heart rate a minute."""
    return vital_sign("heart_rate", "hr", by_patient=False)
