"""What `devices.py` checks and measures on the accelerators of a machine.

- `outcome`: what a check says, and how one is run so that its failure is a row
- `watching`: runs the checks in a process of their own, and goes on where one ended it
- `program`: that process
- `machine`: its devices, the strategies over them, and what the report says of both
- `layers`, `cudnn`, `steps`, `speed`: the checks
"""
