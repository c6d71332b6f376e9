"""The builtins, `@name(...)`, by subject. Importing this package registers them all."""

from appliance.csl.builtins import machine
from appliance.csl.builtins.data import arrays, conversions, text
from appliance.csl.builtins.fabric import colors, handles, queues, tasks
from appliance.csl.builtins.structure import exports, imports, placement
from appliance.csl.builtins.vectors import dsds, operations, registers

__all__ = [
    "arrays",
    "colors",
    "conversions",
    "dsds",
    "exports",
    "handles",
    "imports",
    "machine",
    "operations",
    "placement",
    "queues",
    "registers",
    "tasks",
    "text",
]
