"""The home of a device on the disk: files, keys, tables."""
