"""The strict action contract (seed 004), a front end of the domain `files`."""
