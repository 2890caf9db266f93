"""HTTP below the routes: problems, status codes, middleware, connections, the listener."""
