"""Fields of tables, arrays of their values, and the numbers of which digests and draws are made."""
