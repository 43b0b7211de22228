"""Synthetic stand-ins for data sets that are not available everywhere.

They have the format of the real sets, and are named as stand-ins wherever they are used.
"""
