"""Columns: tables of like entities as arrays, and batches that are decided as arrays.

Theory of operation
===================

**A table is a collection.** `TableData` is a `Collection` with a fixed number of rows and one array
a field. Rules, views and readers use it as any collection; an entity is made when one is asked for.

**A column batch is one batch.** `ColumnBatch` holds one intent of one kind for many members of a
population, as arrays. All of its rows are decided at one moment: each reads the state as it was
when the batch was opened, contended rows are granted in the fair order, and the admitted rows are
applied together. It is one group, one record and one seq. The row is all or nothing, not the batch.

**Two executions, one record.** `decide.py` decides a batch by arrays, `row_by_row.py` the same
batch in plain Python over the same rule. Law A: both write the same bytes. So the fast execution
has a reference that can be read, and a fault in either is found by the other.

**The path.** `form.py` checks shapes, dtypes and numbers, and raises before anything is decided.
`decide.py` refuses rows by payload, suspension, context and quota, and calls the kind's rule with
`Rows` (`kernel/plugin/rows.py`); `contention.py` grants claims and finds sums in danger of their
bounds, which `turns.py` passes in the fair order. `record.py` makes the record, and `settle.py`
applies it: the one function of the live world and of replay.

numpy is an extra. It is imported here, in `kernel/arrays/`, and by `state/table.py`,
`ledger/members.py` and `plugin/rows.py`; `arrays/field.py` and `batch.py` do without, so a domain
with tables can be declared, and a world without tables never loads it.
"""
