"""The experiments of notebook 11: `spec` says what they are, `train` trains them."""

from utils.experiments.objectives.spec import *
