"""The JSON files of a compiled program: `out.json` and `out_rpc.json`."""

import json

from appliance.csl.program.placement import Program


def out_json(program: Program) -> str:
    """`out.json`: every `--params` and `--colors` value, as text; the colors once more apart."""
    parameters = {name: str(value) for name, value in (*program.parameters, *program.colors)}
    colors = {name: str(value) for name, value in program.colors}
    return json.dumps({"params": parameters, "colors": colors}, indent=2) + "\n"


def out_rpc_json(program: Program) -> str:
    """`bin/out_rpc.json`: what the host may call, read and write."""
    symbols = []
    for symbol in program.symbols:
        entry: dict[str, object] = {
            "id": symbol.id,
            "kind": symbol.kind,
            "name": symbol.name,
            "sym_name": symbol.name,
            "type": symbol.type,
        }
        if symbol.kind == "Var":
            entry["immutable"] = int(symbol.immutable)
        if symbol.kind == "Func" and symbol.inputs:
            entry["inputs"] = [{"name": name, "type": type_} for name, type_ in symbol.inputs]
        if symbol.kind == "Stream":
            entry["color"] = symbol.color
        symbols.append(entry)
    return json.dumps({"rpc_symbols": symbols}, indent=2) + "\n"
