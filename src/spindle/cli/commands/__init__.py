"""The commands of the `spindle` program, one file each."""
