"""Put this folder on the path, so that its files can share the checks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
