"""Made-up data for sets that are not available everywhere.

They have the format of the real sets, and are named as stand-ins.
"""
