"""Recurrent cells with long-time dependencies as PyTorch modules, their fast kernels, and probes."""
