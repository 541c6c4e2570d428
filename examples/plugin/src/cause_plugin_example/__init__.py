"""A partition and a policy for CAUSE, in a package of their own."""
