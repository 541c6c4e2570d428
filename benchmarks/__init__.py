"""How fast, how large, and how both grow. Run with `make bench`."""
