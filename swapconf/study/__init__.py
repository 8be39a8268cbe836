"""The one reading of a training YAML, under the settings of its repository and the versions that run it."""
