"""Heart rate, by patient: that of BIDMC's windows, no patient in two parts; see `lib.tasks.sources._bidmc`."""

import xarray as xr

from lib.tasks.sources._bidmc import vital_sign
from lib.tasks.sources._registry import source


@source
def heart_rate_by_patient() -> xr.Dataset:
    """Return windows of PPG and ECG, (4000, 2), and the heart rate a minute."""
    return vital_sign("heart_rate_by_patient", "hr", by_patient=True)
