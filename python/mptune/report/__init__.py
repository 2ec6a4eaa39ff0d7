"""Results for people and for other programs: figures, JSON documents, the files of a run directory.

Nothing here computes a result.
"""
