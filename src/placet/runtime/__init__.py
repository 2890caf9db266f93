"""The embedding API: worlds, handles, stores, snapshots, clocks and executors around the actors."""
