"""What a run is asked to do: the types of its settings, and `params.yaml`, which gives them values."""
