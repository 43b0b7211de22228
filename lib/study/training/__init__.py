"""Models, how they are trained, and jobs in shards."""
