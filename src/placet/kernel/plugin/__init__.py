"""The port of domains: declarations, registry, rules version, and the boundary of their calls."""
