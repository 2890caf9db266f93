"""Events of a design, projected from the log, and the audit trail."""
