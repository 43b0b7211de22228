"""Cells, kernels and experiments for recurrent networks that learn long time dependencies."""
