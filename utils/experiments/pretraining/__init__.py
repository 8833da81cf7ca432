"""The experiments of notebook 07: `spec` says what they are, `train` trains them."""

from utils.experiments.pretraining.spec import *
