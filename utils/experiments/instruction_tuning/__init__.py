"""The experiments of notebook 15: `spec` says what they are, `train` trains them."""

from utils.experiments.instruction_tuning.spec import *
