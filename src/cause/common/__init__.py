"""Small modules that every package uses: units, names, hashes. They import nothing of the other packages."""
