"""EcoTTA: small networks beside a frozen one, held to what it says."""

from multipool.methods.ecotta.method import EcoTTA, EcoTTAConfig

__all__ = ["EcoTTA", "EcoTTAConfig"]
