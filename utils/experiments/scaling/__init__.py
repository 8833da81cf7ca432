"""A small scaling experiment, for notebook 03: several sizes at equal FLOPs, and a prediction for more FLOPs."""

from utils.experiments.scaling.spec import *
