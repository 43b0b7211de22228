"""Measurements on a cell: adjoint states, Lyapunov exponents, time steps, the coadjoint method."""


class Diverged(ArithmeticError):
    """A loss, a penalty, a gradient or a measurement is not finite: the run has diverged."""
