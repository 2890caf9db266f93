"""Commit an admitted batch: build its record, apply it to the ledger, append it to the chain."""
