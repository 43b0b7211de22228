"""Respiratory rate: that of BIDMC's windows, split at random as in the texts; see `lib.tasks.sources._bidmc`."""

import xarray as xr

from lib.tasks.sources._bidmc import vital_sign
from lib.tasks.sources._registry import source


@source
def respiratory_rate() -> xr.Dataset:
    """Return windows of PPG and ECG, (4000, 2), and the respiratory rate a minute."""
    return vital_sign("respiratory_rate", "resp_rate", by_patient=False)
