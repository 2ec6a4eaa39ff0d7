"""The result: the optimum with its evidence, written once and read by everything.

`documents` and `size_documents` make it of what the main job found, `wording` puts it into sentences,
`run_data` has its structs, from which `schema` follows, and `reading` reads a finished run.
"""
