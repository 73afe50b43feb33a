"""Code that several wires share."""
