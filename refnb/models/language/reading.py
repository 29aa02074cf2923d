from ..reasoning import split_reasoning
from .prompts import read, reading_of, WHY, Mode
