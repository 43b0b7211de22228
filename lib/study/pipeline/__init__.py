"""Run notebooks, record what they depend on, and keep the pipeline up to date."""
