"""The experiments of notebook 09: `spec` says what they are, `train` trains them."""

from utils.experiments.forgetting.spec import *
