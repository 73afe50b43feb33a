"""What requests use: quotas, the usage log, prices and estimates."""
