"""Everything that docs/security.md says is attacked: `make attack`.

table     the rows of docs/security.md, and the tests that they name
entry_points  every row of docs/entry-points.md, and the tests that attack it
modes     the ways an appliance is started, and whom each serves as whom
targets   a running appliance as an attacker finds it
attacker  the process of an attacker: gives its rights up, then tries everything
probes    what it tries: over the network (`web`, `calls`) and on the machine (`machine`)
"""
