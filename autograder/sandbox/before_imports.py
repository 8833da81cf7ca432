"""What the fork server imports first: until `warm.settle`, nothing is looked through for garbage.

What it imports stays, and a fifth of the time would go into looking at it again and again.
"""

import gc

gc.disable()
