"""What the fork server imports first: it turns garbage collection off until `preload.settle`.

Imported modules stay, and to look through them again and again would take a fifth of the time.
"""

import gc

gc.disable()
