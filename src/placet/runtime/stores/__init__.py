"""The technologies a log lies in: one port, one contract, a store per URL."""
