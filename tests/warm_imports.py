"""The last module that warm processes import: it leaves all that came before out of garbage collections.

A home makes a collection after each erasure and when it is closed, and beside torch one takes 0.2 s.
"""

import gc

gc.collect()
gc.freeze()
