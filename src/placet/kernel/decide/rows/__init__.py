"""Many batches of one intent, decided together: the usual tick of a simulation.

`structure` checks their form by columns, `decide` takes them through the other stages in one loop,
and `record` writes one `Group` record of them. Every batch gets the verdict that it would get by
itself: whatever is not plainly admissible takes the ordinary stages.
"""
