"""What a network that latches one sign has learned: experiment of sections 3.3.2 and 3.6.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024. `training` holds one training and its
measurements, `design` the plan and the run of all, and `results` the dataset that comes of it.

What the text leaves open, and what is chosen here:

=================== =====================================================================================
optimiser           Adam on fresh sequences, the learning rate falling along a cosine; gradients are clipped
initial weights     TensorFlow's for recurrent layers: W orthogonal, R by Glorot and Bengio, b zero
output layers       of the longer tasks: logistic regression on the last states, solved to its optimum
number of networks  the text shows one; here several are trained, and all are kept
=================== =====================================================================================
"""
