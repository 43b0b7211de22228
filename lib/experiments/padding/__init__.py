"""Experiment 2.3: which way of training still learns when noise separates an image from the end of its sequence?

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.7, with the sweep of appendix A3.2.
`methods` holds the networks and the methods of Table 2.1, `training` one attempt, `design` the plan and the run of all, and
`results` the dataset that comes of it.

What the text leaves open, and what is chosen here:

===================== ==================================================================================
optimiser             Adam in batches of 32, as in section 3.3; the learning rates are in `params.yaml`
epochs                in `params.yaml`
initial weights       TensorFlow's for recurrent layers, see `methods.initialise`
activation            tanh, as in theorem 2.1; the linear RNN of definition 2.3 is trained beside it
kappa                 one weight for the table, in `params.yaml`; the sweep shows the others
weight of the soft    in `params.yaml`
orthogonal penalty
reservoir             W, R and b_1 stay as they were drawn; the output layer alone is trained
accuracy              after the last epoch, on the test part
===================== ==================================================================================
"""
