"""Which sentence comes next, and which library says this: what two parts of notebook 08 learn, once."""

from utils.experiments.choices.spec import *
