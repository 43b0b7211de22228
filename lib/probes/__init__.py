"""What is measured on a network: adjoint states, Lyapunov exponents, reversal, the coadjoint method."""
