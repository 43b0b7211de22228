"""The tenet of the dissertation's chapter 3 as twelve linear models: if gradients vanish, learning is poor."""
