"""What comes out of a run, in files that other programs read."""

from mmfl.runs.export.models import export_models
from mmfl.runs.export.tables import export_tables

__all__ = ["export_models", "export_tables"]
