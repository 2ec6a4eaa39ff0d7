"""The five papers: their published numbers, what follows from them, and the procedure of one of them.

`published` has the tables as CSV, `reproduce` recomputes what the papers conclude from them, and `glm` is the
statistical procedure of the GLM study for anyone's measurements.
"""
