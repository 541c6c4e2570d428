"""The exactness cover of real learning: every feasible combination gives the clean room's bits."""
