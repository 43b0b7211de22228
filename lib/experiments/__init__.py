"""The experiments beside the factorial one, a file each: its jobs, how one is run, and the dataset that comes of them."""
