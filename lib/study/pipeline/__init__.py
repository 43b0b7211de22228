"""Run notebooks, record what they depend on, and keep the results up to date."""
