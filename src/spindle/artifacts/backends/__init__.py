"""What touches disk, network and embedded engines for artifacts, one technology a file."""
