"""Run notebooks, and say what they depend on: parameters, code, and what is left behind when they are killed."""

import sys

# A grammar of web addresses, which no notebook holds: with it every import of nbformat would take four times as long.
sys.modules.setdefault("rfc3987_syntax", None)
