"""A durable device: the engine, and a home on the disk."""
