"""The builtins, `@name(...)`, by subject. Importing this package registers them all."""

from appliance.csl.builtins import (
    arrays,
    colors,
    conversions,
    dsds,
    exports,
    handles,
    imports,
    machine,
    operations,
    placement,
    queues,
    registers,
    tasks,
    text,
)

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
