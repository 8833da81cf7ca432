"""The ablations of notebook 12 that students read and do not run: `spec` says what they are, `train` trains them."""

from utils.experiments.sharing.spec import *
