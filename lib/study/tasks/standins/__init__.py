"""Made-up data for sets that cannot be had everywhere: in the format of the real ones, and named
as stand-ins.
"""
