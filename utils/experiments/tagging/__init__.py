"""The experiments of notebook 08: `spec` says what they are, `train` trains them."""

from utils.experiments.tagging.spec import *
