"""What serves each capability for real: sockets, disks and processes; `http.py` serves the network."""
