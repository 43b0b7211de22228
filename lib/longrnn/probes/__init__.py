"""What is measured on a network: adjoint states, Lyapunov exponents, reversal, the coadjoint method."""


class Diverged(ArithmeticError):
    """A loss, a penalty, a gradient or a measurement that is no finite number: the attempt has diverged."""
