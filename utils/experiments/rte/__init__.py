"""The experiments of notebooks 05 and 06: `spec` says what they are, `train` trains them."""

from utils.experiments.rte.spec import *
