"""A ranking-model server in Python: grpcio, NumPy and JAX."""
