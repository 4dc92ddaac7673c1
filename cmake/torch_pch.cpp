// Exists so that the precompiled LibTorch header belongs to a target of its own.
