"""`reproducible: true` in params.yaml: equal bytes on processors of one manufacturer.

PyTorch, MKL, oneDNN, OpenBLAS, NumPy and Numba choose instructions by the processor. On a processor
with AVX-512 they sum in another order than on a processor that only has AVX2, and use different
polynomials for exponentials and logarithms. So the last digits differ, and training amplifies the
differences. An environment variable for each library limits this choice. The libraries read the
variables when they are loaded, so the variables must be set before a process imports any library.

We tested 76 operations that training and analyses use, on an AMD processor with AVX-512 and on two
processors that QEMU emulates:

- An AMD processor without AVX-512 (``EPYC-Rome``). Without the variables, 19 operations differ.
  With them, all are equal except PyTorch's square root and therefore Adam, because MKL refines the
  processor's own approximation of the square root. Our training lets Adam compute it exactly
  (`study.training.optimizers.adam_options`). Then five cells, trained for five steps by the
  reference and by the CPU kernels, have bit-identical weights.
- An Intel processor (``Haswell``). With the variables, 24 operations still differ. On Intel's
  processors, MKL uses other algorithms for products, exponentials and decompositions.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from study.paths import ROOT

PINNED: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's element-wise functions, sums and softmax
    "MKL_CBWR": "AVX2",  # PyTorch's matrix products and decompositions
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # nn.LSTM in single precision
    "OPENBLAS_CORETYPE": "Haswell",  # matrix products of NumPy, SciPy and our CPU kernels
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # NumPy's exponentials, logarithms
    "NUMBA_CPU_NAME": "haswell",  # machine code of our CPU kernels
    "NUMBA_CPU_FEATURES": "",
}
"""Environment variables and their values."""
_MARK = "LTD_REPRODUCIBLE"
"""Environment variable that tells child processes the decision: 1 if pinned, else 0."""


class InstructionError(RuntimeError):
    """This processor lacks the instructions that `reproducible: true` needs."""


def says_reproducible(parameters: object) -> bool:
    """Return whether parameters say `reproducible: true`.

    Parameters
    ----------
    parameters
        The content of a file like ``params.yaml``.

    Returns
    -------
    bool
    """
    return isinstance(parameters, dict) and parameters.get("reproducible") is True


def is_reproducible(path: Path) -> bool:
    """Return whether a file of parameters says `reproducible: true`.

    Parameters
    ----------
    path
        A file like ``params.yaml``.

    Returns
    -------
    bool
        False if it cannot be read.
    """
    # Imported here, because most processes inherit the decision and don't need it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return False
    return says_reproducible(content)


def pin_instructions(root: Path = ROOT) -> None:
    """Set the variables if params.yaml says `reproducible: true`; children inherit the decision.

    A file that cannot be read counts as `reproducible: false`. The stage `code` reports its errors.

    Parameters
    ----------
    root
        Root of the repository.

    Raises
    ------
    InstructionError
        The processor has no AVX2.
    """
    if _MARK in os.environ:
        return
    reproducible = is_reproducible(root / "params.yaml")
    if reproducible:
        _check_processor()
        os.environ.update(PINNED)
    os.environ[_MARK] = str(int(reproducible))


def pinned() -> bool:
    """Return whether instructions are pinned in this process.

    Returns
    -------
    bool
        The decision of `pin_instructions` in this process or in a parent. If there is none, as in a
        worker of a separate Dask scheduler, whether the environment has all variables.
    """
    decision = os.environ.get(_MARK)
    if decision is not None:
        return decision == "1"
    return all(os.environ.get(name) == value for name, value in PINNED.items())


def has_avx2() -> bool:
    """Return whether the processor has AVX2.

    Returns
    -------
    bool
        True on an x86-64 processor whose ``/proc/cpuinfo`` lists it.
    """
    info = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and info.exists() and " avx2 " in info.read_text("utf-8")


def _check_processor() -> None:
    """Refuse a processor on which the libraries would fail or ignore the variables."""
    if not has_avx2():
        raise InstructionError(
            "reproducible: true needs an x86-64 processor with AVX2, this is "
            f"{platform.machine()}; set it to false in params.yaml"
        )
