"""Single batches: plain batches of one intent, decided together as in a tick of a simulation.

`structure` checks their form by columns, `decide` takes them through the other stages in one loop,
and `record` writes one `SingleBlock` of them. Each batch gets the verdict that it would get by
itself: a batch that a stage must look at closely takes the calls of the stages.
"""
