"""The experiments of notebook 10: `spec` says what they are, `train` trains them."""

from utils.experiments.longer_context.spec import *
