"""The impure parts of domains: commands, routes and executors, found by entry points."""
