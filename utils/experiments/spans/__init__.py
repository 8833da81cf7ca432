"""Hidden spans against hidden tokens, tested on questions: `spec` says what the arms are, `train` trains them."""

from utils.experiments.spans.spec import *
