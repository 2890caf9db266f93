"""The decision of batches: their fair order, each batch by itself, and rows of batches together."""
