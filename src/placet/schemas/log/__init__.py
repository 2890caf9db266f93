"""The durable form of a world: records, their chain, snapshots and packs."""
