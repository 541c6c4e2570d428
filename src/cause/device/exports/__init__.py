"""The ensemble as files for serving elsewhere; each copy is recorded, so that a later forget can name it."""

from cause.device.exports.export import FORMS, Exported, export

__all__ = ["FORMS", "Exported", "export"]
