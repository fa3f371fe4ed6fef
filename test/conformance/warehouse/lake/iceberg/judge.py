"""Reads all tables of a namespace with pyiceberg, and writes the rows of each as a Parquet file."""

import sys

import pyarrow.parquet as parquet
from pyiceberg.catalog import load_catalog

url, namespace, folder = sys.argv[1:]
catalog = load_catalog("tests", type="rest", uri=url)
for identifier in catalog.list_tables(namespace):
    table = catalog.load_table(identifier)
    parquet.write_table(table.scan().to_arrow(), f"{folder}/{identifier[-1]}.parquet")
    print(identifier[-1])
