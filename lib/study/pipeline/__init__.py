"""Run notebooks, and say what they depend on: parameters, code, and what is left behind when they are killed."""
