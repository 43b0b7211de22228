"""Run one notebook and keep a clean executed copy: ``python -m lib.run NOTEBOOK OUTPUT [-p name value]...``."""
