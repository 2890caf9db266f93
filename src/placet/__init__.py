"""placet: agents propose, one gate decides."""
