"""Experiment 2.4: the LU RNN, the inverse RNN, the basic RNN and the LSTM on the adding problem.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.9.1. `training` holds one training,
`design` the plan and the run of all, and `results` what is kept of it.

What the text leaves open, and what is chosen here:

=================== =====================================================================================
optimiser           Adam, on fresh sequences in every batch; gradients are clipped
training steps      in `params.yaml`
learning rate       the text's range is 1e-4 to 1e-3, its choice for each network is not told
initial weights     the same for all four, see `training.start`
activation          tanh, as in the other experiments
=================== =====================================================================================
"""
