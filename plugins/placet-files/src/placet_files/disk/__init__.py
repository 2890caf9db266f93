"""The executors of the domain `files`, on a disk below one root."""
