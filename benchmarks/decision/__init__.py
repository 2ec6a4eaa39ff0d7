"""Quality and cost of answers, strategies and path managers."""
