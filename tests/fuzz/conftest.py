"""Put the engine's files on the path, so that the tests of this folder can share them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
