"""The lab's curves, for notebook 04: a small model of documentation that learns to judge reviews."""

from utils.experiments.lab.spec import *
