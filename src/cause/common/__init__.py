"""Small parts that every package uses: units, names, hashes. It imports nothing of the other packages."""
