from .croissant_json import croissant
from .ddi_xml import ddi, read_ddi
from .description import CROISSANT, DDI, Described, Description, described
from .documents import files

__all__ = ["CROISSANT", "DDI", "Described", "Description", "croissant", "ddi", "described", "files", "read_ddi"]
