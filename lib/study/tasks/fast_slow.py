r"""FitzHugh and Nagumo's system: the next value of a signal with a fast and a slow time scale.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long Expressive Memory for Sequence
Modeling*, ICLR 2022:

.. math::
    v' = v - v^3 / 3 - w + I, \quad w' = \epsilon (v + a - b w), \quad
    (v_0, w_0) = (\text{U}(-1, 1), 0)

with I = .5, a = .7, b = .8, epsilon = .02, on [0, 400] in 1,000 steps. Input :math:`v(t_n)`, target
:math:`v(t_{n+1})`. The paper's program solves it with SciPy's default tolerance, whose solution
departs visibly from the exact trajectory; the exact one is offered as well.
"""

from typing import Literal

import numpy as np

from study.config.section import Positive
from study.tasks._registry import task
from study.tasks.data import Split, Task

CURRENT, A, B, EPSILON = 0.5, 0.7, 0.8, 0.02
STEP = 0.4
"""Time between two inputs."""


@task
def fast_slow(
    rng: np.random.Generator,
    *,
    time_steps: Positive = 1000,
    train_size: Positive = 128,
    validation_size: Positive = 128,
    test_size: Positive = 1024,
    solver: Literal["author", "exact"] = "author",
) -> Task:
    """Return the task of predicting the next value at every step; defaults are the paper's.

    The time between two steps stays 0.4, whatever their number T. The solver ``author`` is adaptive
    Runge-Kutta at SciPy's default tolerance, trajectory by trajectory; ``exact`` is right to ten
    digits.
    """
    sizes = {"train": train_size, "validation": validation_size, "test": test_size}
    splits = {name: trajectories(size, time_steps, rng, solver) for name, size in sizes.items()}
    return Task(name="fast_slow", kind="series", target="steps", outputs=1, **splits)


def trajectories(
    size: int, time_steps: int, rng: np.random.Generator, solver: str = "author"
) -> Split:
    """Draw trajectories.

    Parameters
    ----------
    size
        Number n of trajectories.
    time_steps
        Length T.
    rng
        Draws the initial values.
    solver
        ``author`` or ``exact``, see `fast_slow`.

    Returns
    -------
    Split
        Inputs v(t_0..t_{T-1}) and targets v(t_1..t_T), (n, T, 1) float32 each.

    """
    # Imported here because it takes longer than the import of all other tasks.
    from scipy.integrate import solve_ivp

    start = rng.uniform(-1, 1, size)
    end = STEP * time_steps
    times = STEP * np.arange(time_steps + 1)
    times[-1] = end
    if solver == "author":  # one by one: the solver's steps depend on the trajectory
        solved = [solve_ivp(_slope, (0, end), (v, 0.0), t_eval=times).y[0] for v in start]
    else:
        state = np.concatenate([start, np.zeros(size)])
        accuracy = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-12}
        solved = solve_ivp(_slopes, (0, end), state, t_eval=times, **accuracy).y[:size]
    v = np.asarray(solved, np.float32)[:, :, None]
    return Split(v[:, :-1], v[:, 1:])


def _slope(_: float, state: tuple) -> tuple:
    v, w = state
    return v - v**3 / 3 - w + CURRENT, EPSILON * (v + A - B * w)


def _slopes(time: float, state: np.ndarray) -> np.ndarray:
    return np.concatenate(_slope(time, np.split(state, 2)))
