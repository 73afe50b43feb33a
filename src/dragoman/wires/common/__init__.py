"""What several wires share."""
