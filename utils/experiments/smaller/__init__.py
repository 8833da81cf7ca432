"""The experiments of notebook 12: `spec` says what they are, `train` trains them."""

from utils.experiments.smaller.spec import *
