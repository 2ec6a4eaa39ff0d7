"""Parts that benchmarks of several questions share. Not benchmarks."""
