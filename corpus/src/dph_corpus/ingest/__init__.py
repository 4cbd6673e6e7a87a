"""Raw files to documents: directories, git repositories, archives and files of rows.

``sources`` says what an input is, a reader for each kind yields files, rows or reasons to skip
one, ``spill`` sorts what a worker reads, and ``gather`` cuts it into the shards of a corpus.
"""
