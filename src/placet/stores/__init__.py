"""The stores of logs, one for each kind of URL: memory, SQLite, PostgreSQL, packs."""
