"""Reports: one page of a run or of a study, with its data, that opens without a network."""
