"""A design in the state tree: parameters and locks, versions, invariants, its JSON form."""
