"""What a domain brings besides its rules: commands, routes and executors, found by entry points."""
