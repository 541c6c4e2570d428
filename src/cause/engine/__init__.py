"""The paper: learning and forgetting in shards, pure. No disk, no clock, no torch."""
