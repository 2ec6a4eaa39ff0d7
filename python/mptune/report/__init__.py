"""Reports for people: figures, tables and pages of finished runs. Nothing here computes a result."""
