"""Gateways beside Spindle's: the servers behind them, the two suites, and how each gateway is started."""
