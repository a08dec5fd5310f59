"""Tables as data sets: CSV files, Parquet files and DataFrames have the same rules."""

from mmfl.data.tables.arrow import read_arrow, read_parquet
from mmfl.data.tables.columns import Column, Table, sort_names
from mmfl.data.tables.csv_file import read_csv
from mmfl.data.tables.encoding import Advice, Encoder, Roles, number_clients
from mmfl.data.tables.frames import read_frame

__all__ = [
    "Advice",
    "Column",
    "Encoder",
    "Roles",
    "Table",
    "number_clients",
    "read_arrow",
    "read_csv",
    "read_frame",
    "read_parquet",
    "sort_names",
]
