"""Results: their schemas, the published numbers, and the figures and tables made from them."""
