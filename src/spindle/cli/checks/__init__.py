"""The checks of `spindle doctor`, a module for each area; `commands/doctor.py` lists them."""
