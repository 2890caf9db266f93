"""The logs of a folder as a list of runs: `placet play FOLDER`.

folder.py: the files, with their heads and counts. summary.py: the summary of a log.
filters.py: the query of the list. notes.py: tags and notes, in a file beside the logs.
listing.py: the rows of the page. comparison.py: two runs side by side.
"""
