"""The domain `design` on the command line and over HTTP (seed 000)."""
