"""The experiments of notebook 13: `spec` says what they are, `train` trains them."""

from utils.experiments.translation.spec import *
