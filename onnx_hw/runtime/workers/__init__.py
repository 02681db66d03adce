"""Workers: processes of this machine, or those of a dask cluster."""
