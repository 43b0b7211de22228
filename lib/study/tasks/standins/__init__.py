"""Synthetic stand-ins for data sets that are not available everywhere.

They have the format of the real data sets, and are called stand-ins wherever they are used.
"""
