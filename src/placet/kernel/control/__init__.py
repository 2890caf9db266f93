"""State changes that are no batch: registration, configuration, operator patches, effects."""
