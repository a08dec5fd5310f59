"""Where data sets come from: the catalogue, downloads, and checks of what was fetched."""

from mmfl.data.sources.catalogue import CATALOGUE, Entry

__all__ = ["CATALOGUE", "Entry"]
