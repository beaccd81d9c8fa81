"""STAND-IN; see stand_in.py."""

from stand_in import convert

convert()
