"""Versions of the packages that can change a number, a figure or a page."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_IMPORT_NAMES = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "myst_nb": "myst-nb",
    "netCDF4": "netcdf4",
}
"""Name of the distribution, in lower case, by the name of its module, if the two differ."""

_USED_BY = {
    "numpy": (),
    "scipy": ("numpy",),
    "pandas": ("numpy",),
    "xarray": ("numpy", "pandas", "netcdf4"),
    "netcdf4": ("numpy",),
    "torch": ("numpy",),
    "numba": ("llvmlite", "numpy"),
    "llvmlite": (),
    "patsy": ("numpy",),
    "statsmodels": ("numpy", "pandas", "patsy", "scipy"),
    "scikit-learn": ("numpy", "scipy"),
    "matplotlib": ("numpy",),
    "pillow": (),
    "sphinx": ("docutils", "furo", "jinja2", "myst-nb", "sphinx-mathjax-offline"),
    "docutils": (),
    "furo": (),
    "jinja2": (),
    "myst-nb": ("sphinx",),
    "sphinx-mathjax-offline": (),
    "nh3": (),
}
"""Distributions that can change results, each with the distributions that it uses to compute.

Distributions that only run code, such as papermill, Dask and pydantic, are not listed.
"""


def result_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that can change the results of code.

    Parameters
    ----------
    modules
        Names of the top-level modules that the code imports.

    Returns
    -------
    dict of str to str
        Version by name of the distribution, sorted. The build tag is left out (``2.13.0``, not
        ``2.13.0+cpu``), and a package that is not installed has the version ``none``.
    """
    todo = [_IMPORT_NAMES.get(name, name) for name in modules]
    names: set[str] = set()
    while todo:
        name = todo.pop()
        if name in _USED_BY and name not in names:
            names.add(name)
            todo += _USED_BY[name]
    return {name: _version(name) for name in sorted(names)}


@cache
def _version(name: str) -> str:
    """Return the version of a distribution without its build tag."""
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return "none"
