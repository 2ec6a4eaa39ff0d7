"""Measuring: planned trials with their seeds, run on all cores, each with a record of its result.

Other modules decide which configurations are worth a trial, and interpret the numbers.
"""
