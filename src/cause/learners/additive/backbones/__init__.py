"""Backbones: frozen functions of one input that yield its features. One backbone a file."""

from cause.learners.additive.backbones.base import Backbone
from cause.learners.additive.backbones.find import backbone_of

__all__ = ["Backbone", "backbone_of"]
