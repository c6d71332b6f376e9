"""Checks a program before anything of it becomes a table of the kernel.

A program may come from a file that anybody has written. The kernel follows what its tables say, so
every number in them has to point at something that is there.

rules       what each field of each record may hold, as one table
relations   what the fields of a record must be to each other
check       walks over a program and applies both
"""

from appliance.fabric.verification.check import check_program

__all__ = ["check_program"]
