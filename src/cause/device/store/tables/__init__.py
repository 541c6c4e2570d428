"""All SQL by which a home works, a class for each group of tables.

The log has its statements in `cause.device.store.log_table`, a restore in `cause.device.store.restore_ledger`, the
schema in `cause.device.store.migrations`, and the questions of the service and the commands are `Queries`.
"""

from cause.device.store.database import Database
from cause.device.store.tables.requests import RequestTables
from cause.device.store.tables.samples import SampleTables
from cause.device.store.tables.staged import StagedTables
from cause.device.store.tables.sub_models import SubModelTables

__all__ = ["RequestTables", "SampleTables", "StagedTables", "SubModelTables", "Tables"]


class Tables:
    """The tables of a home. Methods that change rows are called in a transaction of `database`.

    Parameters
    ----------
    database
        The connection to the ledger.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.samples = SampleTables(database)
        self.staged = StagedTables(database)
        self.requests = RequestTables(database)
        self.sub_models = SubModelTables(database)
