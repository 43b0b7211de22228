r"""The FitzHugh-Nagumo system: predict the next value of a signal with two time scales.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long Expressive Memory for Sequence
Modeling*, ICLR 2022:

.. math::
    v' = v - v^3 / 3 - w + I, \quad w' = \epsilon (v + a - b w), \quad
    (v_0, w_0) = (\text{U}(-1, 1), 0)

with I = .5, a = .7, b = .8, epsilon = .02, on [0, 400] in 1,000 steps. The input is :math:`v(t_n)`,
the target :math:`v(t_{n+1})`. The paper's program solves the equations with SciPy's default
tolerance. Its solution deviates visibly from the exact one. Both are available.
"""

from typing import Literal

import numpy as np

from study.config.section import Positive
from study.tasks._registry import task
from study.tasks.data import Split, Task

CURRENT = 0.5
A = 0.7
B = 0.8
EPSILON = 0.02
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
    """Make the task of predicting the next value at every step; the defaults are the paper's.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the initial values.
    time_steps : int
        Length T of a sequence. The time between two steps is always 0.4.
    train_size, validation_size, test_size : int
        Number of sequences of each split.
    solver : {"author", "exact"}
        See `trajectories`.

    Returns
    -------
    Task
    """
    return Task(
        name="fast_slow",
        kind="series",
        target="steps",
        outputs=1,
        train=trajectories(train_size, time_steps, rng, solver),
        validation=trajectories(validation_size, time_steps, rng, solver),
        test=trajectories(test_size, time_steps, rng, solver),
    )


def trajectories(
    size: int, time_steps: int, rng: np.random.Generator, solver: str = "author"
) -> Split:
    """Draw initial values, and solve the equations.

    Parameters
    ----------
    size : int
        Number n of trajectories.
    time_steps : int
        Length T.
    rng : numpy.random.Generator
        Draws the initial values.
    solver : {"author", "exact"}
        ``author``: Runge-Kutta at SciPy's default tolerance, separately for each trajectory.
        ``exact``: accurate to ten digits.

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
    """Return the right-hand sides of the equations for v and w."""
    v, w = state
    return v - v**3 / 3 - w + CURRENT, EPSILON * (v + A - B * w)


def _slopes(time: float, state: np.ndarray) -> np.ndarray:
    """Return the right-hand sides of many systems, whose v come first, then their w."""
    return np.concatenate(_slope(time, np.split(state, 2)))
