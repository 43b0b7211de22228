"""Results: their schema, the published numbers, and the figures and tables made of them."""
