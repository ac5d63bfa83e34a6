"""What holds for all tests."""

from __future__ import annotations

import os

# No test asks the machine that it runs on for keys to somebody's bucket.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
