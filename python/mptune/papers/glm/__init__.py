"""The GLM procedure of Wang et al. (IAEAC 2018): a formula for throughput over buffer, and its statistics.

The formula itself is `mptune.response.equation`. Nothing here measures, reads files or prints.
"""
