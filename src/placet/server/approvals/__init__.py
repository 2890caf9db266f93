"""Requests for approval over HTTP: JSON, deciders, outcomes of calls, and notices.

The requests are those of `placet.Inbox`, whichever program asked; the routes are in
`routes/approvals.py`.
"""
