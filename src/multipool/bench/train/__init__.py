"""Source models: a training loop that can be resumed, its augmentations, and our recipes."""
