"""The subcommands of `spindle`, one module each."""
